"""One operator of PyTorch's sample database, one dtype: compiled, against eager on the device."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch

from op_outcome import Outcome, outcome
from op_samples import operators

DTYPES = {"f32": torch.float32, "f16": torch.float16}
_OUTCOMES = {
    "native": "right",
    "decomposed": "decomposed",
    "call": "call",
    "eager": "call",
    "untraceable": "left out",
    "eager fails": "left out",
    "no sample": "left out",
}


def units(device: str, dtype: str) -> list[str]:
    return [
        op.formatted_name
        for op in operators(device)
        if DTYPES[dtype] in op.supported_dtypes(device)
    ]


@functools.cache
def _by_name(device: str) -> dict[str, Any]:
    return {op.formatted_name: op for op in operators(device)}


def make(arguments: list[str]) -> Callable[[str], dict[str, Any]]:
    """Arguments: device, dtype, number of samples."""
    device, dtype, samples = arguments
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    # Eager is to be as exact as f32 allows.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    if device == "cuda":
        torch.zeros(1, device="cuda")

    def run(unit: str) -> dict[str, Any]:
        op = _by_name(device)[unit]
        return _answer(outcome(op, DTYPES[dtype], int(samples), device=device))

    return run


def _answer(found: Outcome) -> dict[str, Any]:
    kind = found.kind
    figures: dict[str, Any] = {"samples": dict(found.kinds), "distance": found.distance}
    if kind in ("call", "eager"):
        figures["calls"] = dict(found.reasons)
    detail = found.failures[0] if found.failures else "; ".join(found.reasons)
    result = _OUTCOMES.get(kind, kind)
    # Samples of other kinds beside the worst: those that PyTorch can't run say nothing about it.
    if kind in ("untraceable", "eager fails") and len(found.kinds) > 1:
        rest = Outcome(kinds=found.kinds.copy())
        del rest.kinds[kind]
        result = _OUTCOMES.get(rest.kind, rest.kind)
    if found.elsewhere and result in ("right", "decomposed"):
        result = "call"
        figures["calls"] = {"a program for another device than the samples are on": 1}
    return {"outcome": result, "detail": detail[:2000], "figures": figures}
