"""Compares two tensors, and tells whether they differ by more than rounding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# By the dtype of the computation: (relative, absolute).
_TOLERANCES = {"float16": (2e-2, 1e-3), "bfloat16": (5e-2, 1e-2), "float64": (1e-7, 1e-8)}
_DEFAULT = (1e-3, 1e-5)


def tolerance_of(dtype: str) -> tuple[float, float]:
    """Relative and absolute error that rounding explains."""
    return _TOLERANCES.get(dtype, _DEFAULT)


@dataclass(frozen=True)
class Comparison:
    same: bool
    cosine: float
    max_abs: float
    max_rel: float
    first: tuple[int, ...] | None  # index of the first differing element
    wrong: int = 0  # number of differing elements, including NaN and infinities
    why: str = ""  # reason, if they can't be compared element by element

    @property
    def text(self) -> str:
        if self.why:
            return self.why
        at = ""
        if self.first is not None:
            at = f", {self.wrong} elements differ, the first at {list(self.first)}"
        return (
            f"cosine {self.cosine:.6f}, max abs error {self.max_abs:.3g}, "
            f"max rel error {self.max_rel:.3g}{at}"
        )


def compare(a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> Comparison:
    """`a` is the reference: relative errors are relative to it."""
    if a.shape != b.shape:
        why = f"shapes differ: {list(a.shape)} and {list(b.shape)}"
        return Comparison(False, float("nan"), float("nan"), float("nan"), None, why=why)
    if a.dtype.kind not in "fc" and b.dtype.kind not in "fc":
        rtol = atol = 0.0
    wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
    right, other = a.astype(wide), b.astype(wide)
    close = np.isclose(other, right, rtol=rtol, atol=atol, equal_nan=True)
    finite = np.isfinite(right) & np.isfinite(other)
    error = np.abs(np.where(finite, other, 0) - np.where(finite, right, 0))
    size = np.abs(np.where(finite, right, 0))
    relative = np.divide(error, size, out=np.zeros_like(error), where=(size > 0) & (error > atol))
    differs = np.argwhere(~close)
    return Comparison(
        same=bool(close.all()),
        cosine=_cosine(np.where(finite, right, 0), np.where(finite, other, 0)),
        max_abs=float(error.max(initial=0.0)),
        max_rel=float(relative.max(initial=0.0)),
        first=tuple(int(i) for i in differs[0]) if len(differs) else None,
        wrong=len(differs),
    )


def _cosine(a: np.ndarray, b: np.ndarray) -> float:
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    if length == 0.0:
        return 1.0 if not np.any(a) and not np.any(b) else 0.0
    return float(np.real(np.vdot(a.ravel(), b.ravel())) / length)
