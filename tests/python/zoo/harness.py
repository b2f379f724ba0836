"""Compares a model compiled by gex with eager: results, gradients, tokens."""

from __future__ import annotations

import copy
import functools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

import gex
from zoo.model import Model

NEW_TOKENS = 10
MODES = ("static", "dynamic", "generate", "static_cache", "backward")


class Difference(AssertionError):
    """gex and eager disagree."""


@dataclass
class Finding:
    """The findings of one mode of running a model."""

    graphs: int = 0
    recompiled: int = 0  # graphs compiled again for another batch size
    native_share: float = 1.0
    calls: Counter[str] = field(default_factory=Counter)
    reasons: dict[str, str] = field(default_factory=dict)  # of calls, by operator
    error: float = 0.0  # largest, as a share of the result's largest number
    first_call: float = 0.0
    tokens: int = 0  # distinct ones among those generated
    steady: Counter[str] = field(default_factory=Counter)  # what the engine counts in a later call


def _on(device: str, tree: Any) -> Any:
    """The same with its tensors on the device."""
    return tree_map(lambda x: x.to(device) if isinstance(x, torch.Tensor) else x, tree)


def tensors(tree: Any) -> list[torch.Tensor]:
    tree = dict(tree) if hasattr(tree, "keys") else tree
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _compare(got: list[torch.Tensor], want: list[torch.Tensor], tolerance: float) -> float:
    if len(got) != len(want) or not want:
        raise Difference(f"{len(got)} results for {len(want)}")
    worst = 0.0
    for position, (a, b) in enumerate(zip(got, want)):
        where = f"result {position} ({b.dtype} {list(b.shape)})"
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            raise Difference(f"{where} is {a.dtype} {list(a.shape)}")
        if not b.is_floating_point():
            if not torch.equal(a, b):
                raise Difference(f"{where} differs in {int((a != b).sum())} places")
            continue
        if not torch.equal(a.isfinite(), b.isfinite()):
            raise Difference(f"{where} is finite in other places")
        a, b = (t.detach().double().nan_to_num(0, 0, 0) for t in (a, b))
        if b.numel():
            error = ((a - b).abs().max() / b.abs().max().clamp(min=1e-3)).item()
            if error > tolerance:
                raise Difference(f"{where}: off by {error:.2g} of its largest number")
            worst = max(worst, error)
    return worst


@contextmanager
def _observed(finding: Finding, device: str) -> Iterator[list[gex.GraphReport]]:
    """Fills in what became of the graphs compiled inside; they are in the list afterwards."""
    with gex.collect() as graphs:
        yield graphs
    for graph in graphs:
        if graph.eager_reason is not None:
            raise Difference(f"a graph runs through PyTorch as a whole: {graph.eager_reason}")
        for plan in graph.runner.memory if graph.runner is not None else []:
            if plan["why"] and device == "cpu":  # more than 5 % above the lower bound
                raise Difference(f"{plan['arena']} bytes are planned: {plan['why']}")
        for call in graph.calls:
            finding.calls[call.op] += 1
            finding.reasons.setdefault(call.op, f"{call.reason} ({call.location})")
    finding.graphs = len(graphs)
    finding.native_share = gex.Explanation(graphs).native_share
    if finding.native_share <= 0.9 and device == "cpu":
        raise Difference(f"too many calls through PyTorch: {dict(finding.calls)}")


def _compiled(
    model: Model, fn: Callable[..., Any], dynamic: bool, backend: str
) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(fn, backend=backend, dynamic=dynamic, fullgraph=not model.breaks)


@torch.no_grad()
def forward(model: Model, dynamic: bool, backend: str = "gex", device: str = "cpu") -> Finding:
    """Results for two batch sizes with dynamic shapes, for one without; a second run repeats."""
    module, finding = model.build().to(device), Finding()
    compiled = _compiled(model, module, dynamic, backend)
    graphs: list[gex.GraphReport] = []
    for batch in (2, 3) if dynamic else (2,):
        inputs = _on(device, model.inputs(batch))
        want = tensors(module(**inputs))
        observed = finding if batch == 2 else Finding()
        with _observed(observed, device) as found:
            start = time.perf_counter()
            got = tensors(compiled(**inputs))
            observed.first_call = time.perf_counter() - start
        graphs += found
        finding.recompiled = observed.graphs if batch == 3 else 0
        error = _compare_with_eager(model, module, inputs, got, want)
        if device != "cpu":  # libraries may choose another algorithm once a call is captured
            got = tensors(compiled(**inputs))
            error = max(error, _compare_with_eager(model, module, inputs, got, want))
        finding.error = max(finding.error, error)
        before = _counters(graphs)
        again = tensors(compiled(**inputs))
        finding.steady = _counters(graphs) - before
        if not all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(got, again)):
            raise Difference("another run gives other numbers")
    return finding


def _counters(graphs: list[gex.GraphReport]) -> Counter[str]:
    return sum((Counter(g.runner.counters) for g in graphs if g.runner is not None), Counter())


def _compare_with_eager(
    model: Model,
    module: torch.nn.Module,
    inputs: dict[str, Any],
    got: list[torch.Tensor],
    want: list[torch.Tensor],
) -> float:
    """On a GPU, where eager's own kernels round differently, results outside the tolerance must
    be as close to those of f64 as eager's are."""
    try:
        return _compare(got, want, model.tolerance)
    except Difference:
        if not want or want[0].device.type == "cpu":
            raise
        wide = {
            k: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v
            for k, v in inputs.items()
        }
        try:
            exact = tensors(copy.deepcopy(module).double()(**wide))
        except RuntimeError:  # a dtype is written into the model
            exact = []
        if len(exact) != len(want):
            raise
        allowed = 2 * _compare([w.double() for w in want], exact, float("inf"))
        return _compare([g.double() for g in got], exact, allowed)


def _gradients(module: torch.nn.Module, results: list[torch.Tensor]) -> list[torch.Tensor]:
    module.zero_grad()
    differentiable = [r for r in results if r.requires_grad]
    weights = torch.Generator().manual_seed(1)
    sum(
        (r * torch.randn(r.shape, generator=weights).to(r.device)).sum() for r in differentiable
    ).backward()
    # Parameters that get none in eager must get none here.
    return [torch.zeros(0) if p.grad is None else p.grad.clone() for p in module.parameters()]


def backward(model: Model, backend: str = "gex", device: str = "cpu") -> Finding:
    """Results and the gradients of all parameters."""
    module, finding = model.build().to(device), Finding()
    inputs = _on(device, model.inputs(2))
    results = tensors(module(**inputs))
    want = _gradients(module, results)
    compiled = _compiled(model, module, dynamic=False, backend=backend)
    with _observed(finding, device):
        start = time.perf_counter()
        got_results = tensors(compiled(**inputs))
        got = _gradients(module, got_results)
        finding.first_call = time.perf_counter() - start
    finding.error = max(
        _compare([r.detach() for r in got_results], [r.detach() for r in results], model.tolerance),
        # Small gradients are differences of large numbers.
        _compare_gradients(got, want, 10 * model.tolerance),
    )
    return finding


def _compare_gradients(
    got: list[torch.Tensor], want: list[torch.Tensor], tolerance: float
) -> float:
    scale = max(float(w.abs().max()) for w in want if w.numel())
    floor = 1e-3 * scale  # a gradient that is zero but for rounding has no digits to compare
    worst = 0.0
    for position, (a, b) in enumerate(zip(got, want)):
        if a.shape != b.shape:
            raise Difference(f"gradient {position}: {list(a.shape)} for {list(b.shape)}")
        if b.numel():
            error = float((a - b).abs().max()) / max(float(b.abs().max()), floor)
            if not error <= tolerance:
                raise Difference(f"gradient {position} off by {error:.2g} of its largest number")
            worst = max(worst, error)
    return worst


@torch.no_grad()
def generate(
    model: Model, static_cache: bool = False, backend: str = "gex", device: str = "cpu"
) -> Finding:
    """Greedy tokens and the logits of every step, with the model's own cache or a static one."""
    module, finding = model.build().to(device), Finding()
    left_out = ("use_cache", "decoder_input_ids")
    inputs = _on(device, {k: v for k, v in model.inputs(2).items() if k not in left_out})
    options = {
        "max_new_tokens": NEW_TOKENS,
        "min_new_tokens": NEW_TOKENS,
        "do_sample": False,
        "output_logits": True,
        "return_dict_in_generate": True,
        **({"cache_implementation": "static"} if static_cache else {}),
        **model.extra,
    }
    want = module.generate(**inputs, **options)
    part = module.get_submodule(model.generator)
    part.forward = _compiled(model, part.forward, dynamic=True, backend=backend)
    with _observed(finding, device):
        start = time.perf_counter()
        got = module.generate(**inputs, **options)
        finding.first_call = time.perf_counter() - start
    if not torch.equal(got.sequences, want.sequences):
        raise Difference(f"tokens {got.sequences.tolist()} for {want.sequences.tolist()}")
    finding.error = _compare(list(got.logits), list(want.logits), 10 * model.tolerance)
    finding.tokens = len(set(want.sequences[:, -NEW_TOKENS:].flatten().tolist()))
    if finding.tokens < 4:
        raise Difference(f"{finding.tokens} distinct tokens don't tell right from wrong ones")
    return finding


Mode = Callable[..., Finding]  # of a model; backend="gex" and device="cpu" can be others


def modes(model: Model) -> dict[str, Mode]:
    """How this model is run."""
    found: dict[str, Mode] = {
        "static": functools.partial(forward, dynamic=False),
        "dynamic": functools.partial(forward, dynamic=True),
    }
    if model.generates:
        found["generate"] = generate
        found["static_cache"] = functools.partial(generate, static_cache=True)
    if model.backward:
        found["backward"] = backward
    return found
