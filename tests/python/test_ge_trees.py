"""Compiled functions that are recorded once and replayed: warm-up, results, training, memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import gex
from conftest import assert_same
from gex.npugraph_ex import graph_pool_handle, mark_step_begin, pool_bytes
from graph_counts import compiled, count

# Backends that record and replay, as torch.compile's arguments.
CAPTURING = [{"backend": "npugraph_ex"}, {"backend": "gex", "mode": "reduce-overhead"}]


def counters() -> dict[str, int]:
    return gex.reports()[-1].runner.counters


@pytest.mark.parametrize("how", CAPTURING, ids=lambda how: how["backend"])
def test_case_71_the_first_call_records_and_the_others_replay(
    how: dict[str, Any], device: str
) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ y, -1) + x

    fn = torch.compile(f, **how)
    seen = []
    with torch.inference_mode(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(4):
            x, y = torch.randn(2, 8, 8, device=device)
            assert_same(fn(x, y), f(x, y))
            seen.append((counters()["captures"], counters()["replays"]))
    assert not [w for w in told if "gex" in str(w.filename) or "gex" in str(w.message)]
    # The reference warms up, records, replays, replays: nothing has to be warmed up here.
    assert seen == [(1, 0), (1, 1), (1, 2), (1, 3)]


def kept(device: str, **options: Any) -> tuple[Callable[[torch.Tensor], torch.Tensor], Any]:
    fn = compiled(lambda x: torch.softmax(x @ x, -1), **options)
    x = torch.randn(4, 4, device=device)
    return fn, x


@torch.no_grad()
def test_case_72_a_kept_result_keeps_its_values(device: str) -> None:
    fn, x = kept(device)
    old = fn(x)
    want = old.clone()
    fn(x + 1)
    assert torch.equal(old, want)


@torch.no_grad()
def test_case_72_in_strict_mode_reading_it_is_an_error_that_names_the_line(device: str) -> None:
    fn, x = kept(device, strict_outputs=True)
    old = fn(x)  # this line
    assert_same(old, torch.softmax(x @ x, -1))
    new = fn(x + 1)
    line = test_case_72_in_strict_mode_reading_it_is_an_error_that_names_the_line
    number = line.__wrapped__.__code__.co_firstlineno + 3
    for read in (lambda: old + 1, old.tolist, old.clone, lambda: str(old), lambda: new + old):
        with pytest.raises(RuntimeError, match=rf"test_ge_trees.py:{number} is read after"):
            read()
    assert old.shape == (4, 4)
    assert_same(new, torch.softmax((x + 1) @ (x + 1), -1))
    mark_step_begin()
    with pytest.raises(RuntimeError, match="is read after a later call began"):
        new.sum()


@torch.no_grad()
def test_case_72_strict_results_of_one_call_and_arguments_stay(device: str) -> None:
    def broken(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.exp(x)
        torch._dynamo.graph_break()
        return x, y + torch.exp(y)

    fn = torch.compile(broken, backend="npugraph_ex", options={"strict_outputs": True})
    x = torch.zeros(3, device=device)
    same, _ = fn(x)
    _, y = fn(x)
    assert same is x
    assert x.tolist() == [0, 0, 0]
    assert_same(y, 1 + torch.exp(torch.ones(3, device=device)))
    unread = fn(x)[1]  # a result is an argument of the next call while it is still good
    fn(unread)
    assert unread.sum() > 0
    fn(x)
    with pytest.raises(RuntimeError, match="is read after"):
        unread.sum()


@torch.no_grad()
def test_case_72_strict_results_in_memory_of_an_argument_stay(device: str) -> None:
    fn = compiled(lambda x: (x.view(-1), x + 1), strict_outputs=True)
    x = torch.zeros(2, 2, device=device)
    view, ended = fn(x)
    fn(torch.ones(2, 2, device=device))
    x.fill_(3)
    assert view.tolist() == [3, 3, 3, 3]
    with pytest.raises(RuntimeError, match="is read after"):
        ended.tolist()


def test_case_73_a_hundred_steps_of_training_replay_two_graphs(device: str) -> None:
    def losses(compile_model: Callable[[nn.Module], Any]) -> list[torch.Tensor]:
        torch.manual_seed(0)
        layers = nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 1)
        model = nn.Sequential(*layers).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        fn = compile_model(model)
        curve = []
        for _ in range(100):
            x = torch.randn(16, 8, device=device)
            loss = (fn(x)[:, 0] - x.sin().sum(-1)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            curve.append(loss.detach())
        return curve

    with gex.collect() as graphs:
        got = losses(lambda model: torch.compile(model, backend="npugraph_ex"))
    want = losses(lambda model: model)
    assert_same(got, want, tolerance=1e-4)
    assert want[-1] < want[0] / 2
    assert [g.runner.counters["captures"] for g in graphs] == [1, 1]
    assert [g.runner.counters["replays"] for g in graphs] == [99, 99]
    assert all(g.runner.counters["uncaptured"] == 0 for g in graphs)


@torch.no_grad()
def test_case_74_a_replaced_parameter_is_bound_and_nothing_becomes_eager(device: str) -> None:
    """The reference records again for each, up to a limit, and is eager beyond it."""
    model = nn.Linear(4, 4).to(device)
    fn = compiled(model, capture_limit=1)
    x = torch.randn(3, 4, device=device)
    for _ in range(6):
        assert_same(fn(x), model(x))
        model.weight.data = torch.randn(4, 4, device=device)
    assert counters()["captures"] == 1
    assert counters()["replays"] == 5
    assert counters()["uncaptured"] == 0


@torch.no_grad()
def test_case_74_a_frozen_parameter_is_bound_again_once_per_replacement(device: str) -> None:
    model = nn.Linear(4, 4).to(device)
    fn = compiled(model, frozen_parameter=True)
    x = torch.randn(3, 4, device=device)
    for replaced in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_same(fn(x), model(x))
            assert_same(fn(x), model(x))
        assert counters()["rebinds"] == replaced
        model.weight = nn.Parameter(torch.randn(4, 4, device=device))


@torch.no_grad()
def test_case_74_over_the_limit_calls_stay_captured_and_are_counted(device: str) -> None:
    model = nn.Linear(4, 4).to(device)
    fn = compiled(model, dynamic=True, capture_limit=1, gears=None)
    for rows in (3, 5, 3, 5, 7):
        x = torch.randn(rows, 4, device=device)
        assert_same(fn(x), model(x))
    assert count("captured") == 1
    assert counters()["captures"] + counters()["replays"] + counters()["uncaptured"] == 5
    assert counters()["evictions"] == counters()["captures"] - 1 > 0


@torch.no_grad()
def test_case_75_two_paths_need_the_memory_of_the_larger(device: str) -> None:
    def start(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ x, -1) @ x

    def small(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ x, -1) @ x + 1

    def large(x: torch.Tensor) -> torch.Tensor:
        y = torch.cat([x, x, x], 1)
        return (torch.softmax(y.t() @ y, -1) @ y.t()).sum(0)

    def bytes_of(*paths: tuple[Callable[..., Any], ...]) -> int:
        torch._dynamo.reset()
        handle = graph_pool_handle()
        functions = {f: compiled(f, use_graph_pool=handle) for path in paths for f in path}
        for _ in range(2):
            for path in paths:
                got = want = torch.randn(64, 64, device=device) / 8
                for step in path:
                    got, want = functions[step](got), step(want)
                assert_same(got, want, tolerance=1e-4)
        return pool_bytes(handle)

    first, second = bytes_of((start, small)), bytes_of((start, large))
    assert 0 < first < second
    assert bytes_of((start, small), (start, large)) <= second
