"""What becomes of an operator's samples: how they run, why not natively, and whether rightly so."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)

from conftest import tensors
from gex.fx_import import GraphNotSupported
from op_samples import UNWRITTEN, Sample, run, samples, trace

TOLERANCE = {
    torch.float32: 2e-5,
    torch.bfloat16: 2e-2,
    torch.float16: 4e-3,
    torch.float64: 1e-7,
    torch.complex64: 2e-5,
    torch.complex128: 1e-7,
}
# Worst last: an operator is as good as the worst of its samples.
KINDS = ("native", "decomposed", "call", "eager", "untraceable", "error", "wrong")


@dataclass
class Outcome:
    """Of one operator and dtype."""

    kinds: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return max(self.kinds, key=KINDS.index, default="no sample")


def outcome(op: Any, dtype: torch.dtype, limit: int, executor: str = "compiled") -> Outcome:
    found = Outcome()
    for number, sample in enumerate(samples(op, dtype, limit)):
        kind, reasons, failure = _judge(op, sample, executor)
        found.kinds[kind] += 1
        found.reasons.update(reasons)
        if failure:
            found.failures.append(f"sample {number}: {failure}")
    return found


def _judge(op: Any, sample: Sample, executor: str) -> tuple[str, list[str], str]:
    torch.manual_seed(1)
    want = tensors(sample.fn(*(t.clone() for t in sample.tensors)))
    try:
        gm = trace(sample)
    except (
        DataDependentOutputException,
        DynamicOutputShapeException,
        UnsupportedOperatorException,
        NotImplementedError,
        RuntimeError,
        ValueError,
        TypeError,
    ) as problem:  # what torch.compile would run eagerly, between two graphs
        return "untraceable", [_first_line(problem)], ""
    try:
        got, report = run(gm, sample.tensors, executor)
    except GraphNotSupported as problem:
        return "eager", [_first_line(problem)], ""
    except Exception as problem:  # every kind of failure is a finding
        return "error", [], f"{type(problem).__name__}: {problem}"
    try:
        _compare(tensors(got), want, values=op.name not in UNWRITTEN)
    except AssertionError as difference:
        return "wrong", [], " ".join(str(difference).split())
    if report.calls:
        return "call", [f"{c.op}: {c.reason}" for c in report.calls], ""
    return ("decomposed" if report.decomposed else "native"), [], ""


def _first_line(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}".splitlines()[0][:160]


def _compare(got: list[torch.Tensor], want: list[torch.Tensor], values: bool) -> None:
    assert len(got) == len(want), f"{len(got)} results, {len(want)} expected"
    for a, b in zip(got, want):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), (
            f"{a.dtype}{a.shape} for {b.dtype}{b.shape}"
        )
        if b.layout == torch.strided and b.numel() > 1:
            assert a.stride() == b.stride(), f"strides {a.stride()}, {b.stride()} expected"
        if values:
            tolerance = TOLERANCE.get(b.dtype, 0)
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
