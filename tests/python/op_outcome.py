"""The outcome of an operator's samples: how they run, why not natively, and whether correctly."""

from __future__ import annotations

import copy
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
from gex.errors import GraphNotSupported
from op_samples import (
    SEED,
    UNWRITTEN,
    Sample,
    copy_of,
    launches_while_traced,
    run,
    samples,
    trace,
)

TOLERANCE = {
    torch.float32: 2e-5,
    torch.bfloat16: 2e-2,
    torch.float16: 4e-3,
    torch.float64: 1e-7,
    torch.complex32: 4e-3,
    torch.complex64: 2e-5,
    torch.complex128: 1e-7,
}
_WIDE = {
    torch.float32: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float16: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}
# Worst last: the outcome of an operator is that of its worst sample.
KINDS = (
    "native", "decomposed", "call", "eager", "untraceable", "eager fails", "error", "wrong",
)  # fmt: skip


@dataclass
class Outcome:
    """Of one operator and dtype."""

    kinds: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    distance: float = 0.0  # largest from eager, of numbers as a share of themselves or of 1
    elsewhere: int = 0  # programs for another device than the samples are on

    @property
    def kind(self) -> str:
        return max(self.kinds, key=KINDS.index, default="no sample")


@dataclass
class _Judgement:
    """Of one sample."""

    kind: str
    reasons: list[str] = field(default_factory=list)
    failure: str = ""
    distance: float = 0.0
    device: torch.device | None = None  # that the program is for, if there is one


def outcome(
    op: Any, dtype: torch.dtype, limit: int, executor: str = "compiled", device: str = "cpu"
) -> Outcome:
    found = Outcome()
    for number, sample in enumerate(samples(op, dtype, limit, device)):
        judged = _judge(op, sample, executor)
        found.kinds[judged.kind] += 1
        found.reasons.update(judged.reasons)
        found.distance = max(found.distance, judged.distance)
        found.elsewhere += judged.device is not None and judged.device.type != device
        if judged.failure:
            found.failures.append(f"sample {number}: {judged.failure}")
    return found


def _judge(op: Any, sample: Sample, executor: str) -> _Judgement:
    torch.manual_seed(SEED)
    try:
        want = tensors(sample.fn(*(copy_of(t) for t in sample.tensors)))
    except Exception as problem:  # there is nothing to compare with
        return _Judgement("eager fails", failure=_first_line(problem))
    if launches_while_traced(op):
        return _Judgement("untraceable", ["it launches its kernel while it is traced"])
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
        return _Judgement("untraceable", [_first_line(problem)])
    problem = _wrong_promise(gm, want)
    if problem:
        return _Judgement("untraceable", [problem])
    try:
        got, report, device = run(gm, sample.tensors, executor)
        got = tensors(got)
        distance = max(map(_distance, got, want), default=0.0)
    except GraphNotSupported as problem:
        return _Judgement("eager", [_first_line(problem)])
    except Exception as problem:  # any failure is a finding
        return _Judgement("error", failure=f"{type(problem).__name__}: {problem}")
    try:
        if op.name in UNWRITTEN:
            distance = 0.0
            _compare_types(got, want)
        else:
            _compare(gm, sample, got, want)
    except AssertionError as difference:
        text = " ".join(str(difference).split())
        return _Judgement("wrong", [], text, distance, device)
    calls = [f"{c.op}: {c.reason}" for c in report.calls]
    kind = "call" if calls else "decomposed" if report.decomposed else "native"
    return _Judgement(kind, calls, "", distance, device)


def _distance(got: torch.Tensor, want: torch.Tensor) -> float:
    """Infinite if one is a number and the other is not, or if sizes differ."""
    if got.shape != want.shape or got.device != want.device:
        return float("inf")
    if got.layout != torch.strided or got.numel() == 0 or not want.dtype.is_floating_point:
        return 0.0
    a, b = got.detach().double(), want.detach().double()
    same = (a == b) | (a.isnan() & b.isnan())
    share = ((a - b).abs() / b.abs().clamp(min=1)).masked_fill(same, 0)
    return float(share.nan_to_num(float("inf")).max())


def _promised(gm: torch.fx.GraphModule) -> list[torch.Tensor]:
    output = next(n for n in reversed(gm.graph.nodes) if n.op == "output")
    return tensors([n.meta["val"] for n in output.args[0] if isinstance(n, torch.fx.Node)])


def _wrong_promise(gm: torch.fx.GraphModule, want: list[torch.Tensor]) -> str:
    """Some of PyTorch's own meta functions return a wrong rank or dtype (bincount and unique in
    2.11), which no backend can correct."""
    for a, b in zip(_promised(gm), want):
        if (a.dim(), a.dtype) != (b.dim(), b.dtype):
            promise, result = (f"{t.dtype} of {t.dim()} axes" for t in (a, b))
            return f"PyTorch's meta function promises {promise} and its kernel gives {result}"
    return ""


def _first_line(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}".splitlines()[0][:160]


def _compare_types(got: list[torch.Tensor], want: list[torch.Tensor]) -> None:
    assert len(got) == len(want), f"{len(got)} results, {len(want)} expected"
    for a, b in zip(got, want):
        assert (a.dtype, a.shape, a.device) == (b.dtype, b.shape, b.device), (
            f"{a.dtype}{a.shape} on {a.device} for {b.dtype}{b.shape} on {b.device}"
        )


def _compare(
    gm: torch.fx.GraphModule, sample: Sample, got: list[torch.Tensor], want: list[torch.Tensor]
) -> None:
    """Whether values and strides equal eager's, or those of PyTorch's own kernels on the traced
    graph: some operators are traced in parts that round where the whole does not, and the order
    of equal elements in an unstable sort is arbitrary."""
    _compare_types(got, want)
    torch.manual_seed(SEED)
    traced = tensors(_sorting_stably(gm)(*(copy_of(t) for t in sample.tensors)))
    for number, (a, b, c, promised) in enumerate(zip(got, want, traced, _promised(gm))):
        if b.layout == torch.strided and b.numel() > 1:
            right = _steps(a) == _steps(b) or _has_promised_steps(a, promised)
            assert right, f"strides {a.stride()}, not {b.stride()}"
        tolerance = TOLERANCE.get(b.dtype, 0)
        options = {"rtol": tolerance, "atol": tolerance, "equal_nan": True}
        try:
            torch.testing.assert_close(a, b, **options)
        except AssertionError:
            if _chooses_among_equals(gm, sample, a, got[0]) or _is_no_farther(
                gm, sample, number, a, b
            ):
                continue
            if torch.equal(b, c):
                raise
            torch.testing.assert_close(a, c, **options)


def _is_no_farther(
    gm: torch.fx.GraphModule, sample: Sample, number: int, got: torch.Tensor, want: torch.Tensor
) -> bool:
    """Whether it is within twice eager's distance from the f64 result: sums that nearly cancel
    show the order of their additions."""
    wide = _WIDE.get(got.dtype)
    if wide is None:
        return False
    inputs = [t.to(_WIDE.get(t.dtype, t.dtype), copy=True) for t in map(copy_of, sample.tensors)]
    try:
        exact = tensors(gm(*inputs))[number]
    except RuntimeError:  # a dtype is written into the graph
        return False
    if exact.dtype != wide or not bool(exact.isfinite().all()):
        return False
    got, want = got.to(wide), want.to(wide)
    return bool((got - exact).abs().max() <= 2 * (want - exact).abs().max())


def _chooses_among_equals(
    gm: torch.fx.GraphModule, sample: Sample, indices: torch.Tensor, values: torch.Tensor
) -> bool:
    """Whether these are indices of the largest elements, or the k-th: eager returns one of
    several."""
    aten = torch.ops.aten
    for target in (aten.topk.default, aten.kthvalue.default):
        for node in gm.graph.find_nodes(op="call_function", target=target):
            (argument, _, *rest) = node.args
            if argument.op != "placeholder" or indices.dtype != torch.int64:
                return False
            x = sample.tensors[list(gm.graph.find_nodes(op="placeholder")).index(argument)]
            if x.dim() == 0:
                return False
            dim = rest[0] if rest else -1
            if indices.dim() < x.dim():
                indices, values = indices.unsqueeze(dim), values.unsqueeze(dim)
            distinct = indices.sort(dim).values.diff(dim=dim).ne(0).all()
            found = x.gather(dim, indices)
            return bool(distinct) and torch.allclose(found, values, 0, 0, equal_nan=True)
    return False


def _sorting_stably(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    gm = copy.deepcopy(gm)
    for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.sort.default):
        names = ("dim", "descending")
        node.kwargs = {**node.kwargs, **dict(zip(names, node.args[1:])), "stable": True}
        node.args = node.args[:1]
        node.target = torch.ops.aten.sort.stable
    gm.recompile()
    return gm


def _has_promised_steps(tensor: torch.Tensor, promised: torch.Tensor) -> bool:
    if all(isinstance(size, int) for size in promised.shape):
        return _steps(tensor) == _steps(promised)
    return tensor.is_contiguous()  # results with data-dependent sizes


def _steps(tensor: torch.Tensor) -> list[int]:
    """Strides of the axes on which they matter."""
    return [step for size, step in zip(tensor.shape, tensor.stride()) if size > 1]
