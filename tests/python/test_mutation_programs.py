"""Functions that copy one argument into another and change it later."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._functorch.aot_autograd import aot_function

import gex
from conftest import assert_same
from gex.options.table import GEX_OPTIONS, Config
from gex.pipeline.compiler import graph_compiler
from gex.pipeline.job import CompileRequest
from mutation_programs import random_program

T = torch.Tensor
Fn = Callable[..., Any]


def copy_then_change(prev: T, cur: T) -> None:
    prev.copy_(cur)
    cur.mul_(2)


def slice_then_change(prev: T, cur: T, d: T) -> None:
    prev[:] = cur
    cur += d


def copy_then_lerp(old: T, e: T, p: T) -> None:
    old.copy_(e)
    e.lerp_(p, 0.5)


def swap_by_clone(a: T, b: T) -> None:
    t = a.clone()
    a.copy_(b)
    b.copy_(t)


def swap_by_sums(a: T, b: T) -> None:
    a.add_(b)
    b.sub_(a).neg_()
    a.sub_(b)


def swap_by_stack(a: T, b: T) -> None:
    both = torch.stack([b, a])
    a.copy_(both[0])
    b.copy_(both[1])


def rotate(a: T, b: T, c: T) -> None:
    t = a.clone()
    a.copy_(b)
    b.copy_(c)
    c.copy_(t)


def swap_rows(a: T, b: T) -> None:
    t = a[0].clone()
    a[0] = b[1]
    b[1] = t


def shift(a: T, b: T, c: T) -> T:
    a.copy_(b)
    b.copy_(c)
    c.add_(1)
    return a + b


def differ_then_copy(prev: T, cur: T) -> T:
    delta = cur - prev
    prev.copy_(cur)
    cur.add_(delta)
    return delta


def return_old_window(a: T, b: T) -> tuple[T, T]:
    old = a[1:].clone()
    a.copy_(b)
    b.zero_()
    return old, a[:1]


CASES = [
    copy_then_change,
    slice_then_change,
    copy_then_lerp,
    swap_by_clone,
    swap_by_sums,
    swap_by_stack,
    rotate,
    swap_rows,
    shift,
    differ_then_copy,
    return_old_window,
]


def laid_out_as(tensor: T) -> T:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype).copy_(tensor)


def check(run: Fn, fn: Fn, args: list[T]) -> None:
    """Compares only values: AOTAutograd gives some results another layout than eager mode."""
    copies = [laid_out_as(a) for a in args]
    got, want = run(*args), fn(*copies)
    torch.testing.assert_close([got, *args], [want, *copies], rtol=1e-5, atol=1e-5)


def drawn(fn: Fn) -> list[T]:
    return [torch.randn(4, 6) for _ in range(fn.__code__.co_argcount)]


@pytest.mark.parametrize("backend", ["gex", "npugraph_ex"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("fn", CASES)
def test_old_contents_are_copied(fn: Fn, dynamic: bool, backend: str) -> None:
    check(torch.compile(fn, backend=backend, dynamic=dynamic, fullgraph=True), fn, drawn(fn))


@pytest.mark.parametrize("options", [{"opt_level": 0}, {"executor": "interpreter"}])
@pytest.mark.parametrize("fn", CASES)
def test_old_contents_are_copied_whatever_runs_the_graph(fn: Fn, options: dict[str, Any]) -> None:
    check(torch.compile(fn, backend="gex", fullgraph=True, options=options), fn, drawn(fn))


@pytest.mark.parametrize("fn", CASES)
def test_old_contents_are_copied_by_exported_functions(fn: Fn) -> None:
    check(gex.compile(fn, tuple(drawn(fn))), fn, drawn(fn))


@pytest.mark.parametrize("fn", [copy_then_change, copy_then_lerp, rotate])
def test_nothing_is_written_in_place(fn: Fn) -> None:
    options = {"inplace_pass": False, "input_inplace_pass": False}
    check(torch.compile(fn, backend="npugraph_ex", options=options), fn, drawn(fn))


class Memory(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("now", torch.randn(4, 6))
        self.register_buffer("before", torch.randn(4, 6))
        self.register_buffer("long_before", torch.randn(4, 6))

    def forward(self, x: T) -> T:
        self.long_before.copy_(self.before)
        self.before.copy_(self.now)
        self.now.lerp_(x, 0.5)
        return self.now - self.long_before


def test_buffers_of_a_module() -> None:
    eager, compiled = Memory(), Memory()
    compiled.load_state_dict(eager.state_dict())
    run = torch.compile(compiled, backend="gex", fullgraph=True)
    for _ in range(4):
        x = torch.randn(4, 6)
        assert_same(run(x), eager(x))
        assert_same(list(compiled.buffers()), list(eager.buffers()))


def test_parameters_are_kept_before_the_step_of_an_optimiser() -> None:
    def made() -> tuple[nn.Module, list[T], torch.optim.Optimizer]:
        torch.manual_seed(1)
        net = nn.Linear(6, 3)
        kept = [torch.zeros_like(p) for p in net.parameters()]
        return net, kept, torch.optim.Adam(net.parameters(), lr=0.1)

    def step(net: nn.Module, kept: list[T], optimiser: torch.optim.Optimizer) -> None:
        with torch.no_grad():
            for old, parameter in zip(kept, net.parameters()):
                old.copy_(parameter)
        optimiser.step()

    eager, compiled = made(), made()
    run = torch.compile(step, backend="gex")
    for _ in range(3):
        x = torch.randn(5, 6)
        for (net, kept, optimiser), do in ((eager, step), (compiled, run)):
            net(x).square().sum().backward()
            do(net, kept, optimiser)
            optimiser.zero_grad()
        assert_same([*compiled[0].parameters(), *compiled[1]], [*eager[0].parameters(), *eager[1]])


def test_ties_after_a_data_dependent_size() -> None:
    def fn(x: T, a: T, b: T) -> None:
        total = (x.nonzero() * 2).sum() + a
        a.copy_(total)
        b.copy_(total)

    args = [torch.tensor([1.0, 0.0, 2.0]), torch.randn(4).long(), torch.zeros(4).long()]
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        check(torch.compile(fn, backend="gex", fullgraph=True), fn, args)


def compare(seed: int, compile_fn: Callable[[Fn], Fn], rows: int = 4) -> None:
    program = random_program(seed, 4 + seed % 9)
    fn = program.function()
    try:
        check(compile_fn(fn), fn, program.arguments(rows))
    except Exception as problem:
        raise AssertionError(f"seed {seed}:\n{program.source}") from problem


def past_dynamo(fn: Fn) -> Fn:
    """As torch.compile does, without the time that Dynamo takes."""
    compile_graph = graph_compiler(CompileRequest("gex", Config(GEX_OPTIONS, {})))
    return aot_function(fn, compile_graph, keep_inference_input_mutations=True)


# GEX_MUTATION_PROGRAMS=n runs more.
COUNT = int(os.environ.get("GEX_MUTATION_PROGRAMS", "300"))


@pytest.mark.parametrize("part", range(6))
def test_random_programs(part: int) -> None:
    with torch.no_grad():
        for seed in range(part, COUNT, 6):
            compare(seed, past_dynamo)


@pytest.mark.parametrize("backend", ["gex", "npugraph_ex"])
def test_random_programs_through_dynamo(backend: str) -> None:
    for seed in range(1000, 1000 + max(10, COUNT // 20)):
        torch._dynamo.reset()
        compare(seed, lambda fn: torch.compile(fn, backend=backend, dynamic=True), 4 + seed % 3)
