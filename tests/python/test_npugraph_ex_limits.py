"""The documented limits of npugraph_ex, each shown not to hold here."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._functorch.aot_autograd import aot_module_simplified

import gex
from conftest import assert_same
from gex.npu.streams import Event, Stream, host_waits, stream
from gex.npugraph_ex import compile_fx, precapture
from gex.npugraph_ex.inference import cache_compile
from graph_counts import compiled, count

Fn = Callable[..., Any]


def in_pieces(fn: Fn, **options: Any) -> Fn:
    return torch.compile(fn, backend="npugraph_ex", options=options)


def counters() -> dict[str, int]:
    return gex.reports()[-1].runner.counters


def no_eager(graphs: list[gex.GraphReport]) -> bool:
    return all(g.eager_reason is None and g.runner.counters["uncaptured"] == 0 for g in graphs)


@torch.no_grad()
def test_limit_01_random_ops_are_captured_and_cached(tmp_path: Path, device: str) -> None:
    layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).to(device)
    x = torch.randn(3, 4, device=device)

    def five(fn: Fn) -> list[torch.Tensor]:
        torch.manual_seed(3)
        return [fn(x) for _ in range(5)]

    want = five(layer)
    assert not torch.equal(want[0], want[1])
    assert_same(five(compiled(layer)), want)
    assert (count("captured"), count("replays")) == (1, 4)
    for _ in range(2):  # made, then taken from the file
        assert_same(five(cache_compile(layer.forward, cache_dir=str(tmp_path))), want)


def test_limit_02_backward_is_captured_and_keeps_what_it_needs(device: str) -> None:
    def train(compile_model: Callable[[nn.Module], Any]) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(device)
        fn = compile_model(model)
        seen = []
        for _ in range(10):
            first, second = (
                fn(torch.randn(5, 4, device=device)),
                fn(torch.randn(5, 4, device=device)),
            )
            (first.square().mean() + second.exp().mean()).backward()
            with torch.no_grad():
                for p in model.parameters():
                    seen.append(p.grad.clone())
                    p -= 0.1 * p.grad
                    p.grad = None
        return seen

    with gex.collect() as graphs:
        got = train(compiled)
    assert_same(got, train(lambda model: model))
    assert [g.runner.counters["captures"] for g in graphs] == [1, 1]
    assert [g.runner.counters["replays"] for g in graphs] == [19, 19]


@torch.no_grad()
def test_limit_03_control_flow_on_data(device: str) -> None:
    def branch(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if y.sum() > 0:
            return y.exp()
        return y - 1

    def loop(x: torch.Tensor) -> torch.Tensor:
        x = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
        return torch.while_loop(lambda x: x.sum() < 50, lambda x: (x + 1,), (x,))[0]

    ones = torch.ones(3, device=device)
    with gex.collect() as graphs:
        fn = in_pieces(branch)
        for x in (ones, -ones, ones):
            assert_same(fn(x), branch(x))
    assert len(graphs) == 3  # before the branch, and each side of it
    assert no_eager(graphs)
    assert "test_npugraph_ex_limits.py" in (graphs[0].end or "")

    fn = compiled(loop)
    for x in (ones, -ones):
        assert_same(fn(x), loop(x))
    assert counters()["captures"] == 1
    assert not gex.reports()[-1].calls

    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"limits.py\", line \d+, in branch"):
        compiled(branch)(ones)


@torch.no_grad()
def test_limit_04_values_for_the_host(device: str) -> None:
    def takes_values(x: torch.Tensor) -> tuple[Any, ...]:
        y = (x * 2).round()
        number, numbers = y[0].item(), y.tolist()
        places = torch.nonzero(y > 2)
        return number, sum(numbers), places, y * number

    fn = in_pieces(takes_values)
    with gex.collect() as graphs:
        for x in (torch.arange(4.0, device=device), torch.tensor([5.0, 0, 1, 9], device=device)):
            got, want = fn(x), takes_values(x)
            assert got[:2] == want[:2]
            assert_same(got, want)
    assert graphs
    assert no_eager(graphs)


@torch.no_grad()
@pytest.mark.parametrize("what", ["stream", "event", "device"])
def test_limit_05_waiting_on_the_host_splits_or_is_reported(what: str, device: str) -> None:
    waits = {
        "stream": Stream().synchronize,
        "event": Event().synchronize,
        "device": lambda: host_waits("torch.npu.synchronize()"),  # what the shim's does
    }[what]

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        waits()
        return y + 1

    x = torch.ones(3, device=device)
    with pytest.raises(torch._dynamo.exc.Unsupported) as told:
        compiled(fn)(x)
    assert "the host can't wait in the middle" in str(told.value)
    assert "test_npugraph_ex_limits.py" in str(told.value)
    torch._dynamo.reset()
    with gex.collect() as graphs:
        assert_same(in_pieces(fn)(x), fn(x))
    assert len(graphs) == 2


@pytest.fixture
def unknown_op(device: str) -> Iterator[Fn]:
    """An operator of which only the kernel is there."""
    library = torch.library.Library("test_limits", "FRAGMENT")
    library.define("unknown(Tensor x) -> Tensor")
    library.impl("unknown", lambda x: x.flip(0) + 1, torch.device(device).type.upper())
    yield torch.ops.test_limits.unknown
    library._destroy()


@torch.no_grad()
def test_limit_06_an_operator_that_can_not_be_captured(unknown_op: Fn, device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return unknown_op(x * 2) * 3

    split = in_pieces(fn)
    with gex.collect() as graphs, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for rows in (3, 3, 5):
            x = torch.randn(rows, device=device)
            assert_same(split(x), fn(x))
    messages = [str(w.message) for w in told if "can't be captured" in str(w.message)]
    assert len(messages) == 1
    assert "test_limits.unknown.default at " in messages[0]
    assert "test_npugraph_ex_limits.py:" in messages[0]
    assert graphs
    assert no_eager(graphs)
    assert "ends at" in str(gex.explain(split))


@torch.no_grad()
def test_limit_07_a_growing_loop_needs_few_captures(device: str) -> None:
    fn = compiled(lambda x: torch.softmax(x @ x.transpose(0, 1), -1) @ x, dynamic=True)
    for length in range(2, 66):
        fn(torch.randn(length, 4, device=device))
    assert count("captured") <= 8

    fn = compiled(lambda x: torch.cumsum(x, 0) * 2, dynamic=True)
    precapture(fn, shapes=[(16, 4), (32, 4)], example=torch.zeros(16, 4, device=device))
    before = counters()["captures"]
    for length in range(9, 33):
        fn(torch.randn(length, 4, device=device))
    assert counters()["captures"] - before <= 1


@torch.no_grad()
def test_limit_08_over_the_limit_only_the_least_used_goes(device: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1) + 1

    fn = compiled(f, dynamic=True, capture_limit=2, gears=None)
    for rows in (3, 3, 5, 3, 7, 3, 9, 3):
        x = torch.randn(rows, 4, device=device)
        assert_same(fn(x), f(x))
    assert counters()["captures"] == 4  # that of 3 rows was never lost
    assert counters()["evictions"] == 2
    assert counters()["replays"] + counters()["captures"] == 8


@torch.no_grad()
def test_limit_09_a_result_in_use_is_never_overwritten(device: str) -> None:
    fn = compiled(lambda x: torch.exp(x) + 1)
    x = torch.zeros(4, device=device)
    held = [fn(x + k) for k in range(4)]
    for k, result in enumerate(held):
        assert_same(result, torch.exp(x + k) + 1)
    assert counters()["bytes_copied"] == 0


@torch.no_grad()
@pytest.mark.parametrize("clone_input", [True, False])
def test_limit_10_memory_of_a_caller_is_never_written(clone_input: bool, device: str) -> None:
    fn = compiled(lambda x, y: (x + y).sin(), clone_input=clone_input)
    first, second, y = torch.randn(3, 4, device=device)
    kept = first.clone(), second.clone()
    for x in (first, second, first):
        assert_same(fn(x, y), (x + y).sin())
    assert torch.equal(first, kept[0]) and torch.equal(second, kept[1])
    assert (count("captured"), counters()["bytes_copied"]) == (1, 0)


@torch.no_grad()
def test_limit_11_a_moved_frozen_weight_is_noticed_by_name(device: str) -> None:
    model = nn.Linear(4, 4).to(device)
    fn = compiled(model, frozen_parameter=True)
    x = torch.randn(3, 4, device=device)
    fn(x)
    model.weight.data = torch.randn(4, 4, device=device)
    with pytest.warns(UserWarning, match="weight"):
        results = [fn(x) for _ in range(2)]
    assert_same(results[-1], model(x))


@torch.no_grad()
def test_limit_12_parameters_are_not_part_of_the_key(device: str) -> None:
    keys, replays = [], []
    for depth in (2, 60):
        model = nn.Sequential(*(nn.Linear(3, 3) for _ in range(depth))).to(device)
        fn = compiled(model, dynamic=True)
        for rows in (4, 5, 4):
            x = torch.randn(rows, 3, device=device)
            assert_same(fn(x), model(x), tolerance=1e-4)
            for p in model.parameters():
                p.data = p.data.clone()
        keys.append([capture["key"] for capture in gex.reports()[-1].runner.captures])
        replays.append(counters()["replays"])
    assert keys[0] == keys[1] != []
    assert all(len(key) == 1 for key in keys[0])
    assert replays[0] == replays[1]


def scaled(x: torch.Tensor, twice: bool) -> torch.Tensor:
    return x * 2 if twice else x + 1


@torch.no_grad()
def test_limit_13_functions_and_all_their_variants_are_cached(tmp_path: Path, device: str) -> None:
    x = torch.randn(3, device=device)
    traced = []
    for _ in range(2):
        fn = cache_compile(scaled, cache_dir=str(tmp_path))
        with gex.collect() as graphs, warnings.catch_warnings():
            warnings.simplefilter("error")
            for twice in (True, False, True):
                assert_same(fn(x, twice), scaled(x, twice))
            assert_same(
                fn(torch.zeros(3, 2, device=device), True), torch.zeros(3, 2, device=device)
            )
        traced.append(len([g for g in graphs if g.origin is not None]))
    assert traced == [3, 0]  # two branches and a rank; then none


@torch.no_grad()
def test_limit_14_writing_in_place_on_another_stream_is_no_race(device: str) -> None:
    side = Stream()

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        with stream(side):
            y.mul_(2)
        return y + x

    compiled_fn = compiled(fn)
    for _ in range(20):
        x = torch.randn(100, device=device)
        assert_same(compiled_fn(x), fn(x))


@pytest.fixture
def one_process(tmp_path: Path) -> Iterator[None]:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


@torch.no_grad()
def test_limit_15_asynchronous_collectives_of_any_size(one_process: None) -> None:
    """What several processes exchange is in test_npugraph_ex_collectives.py."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        work = torch.distributed.all_reduce(y, async_op=True)
        z = x + 1
        work.wait()
        return y + z

    compiled_fn = compiled(fn, dynamic=True)
    with gex.collect() as graphs:
        for rows in (3, 4, 5):
            x = torch.randn(rows)
            assert_same(compiled_fn(x), fn(x))
    assert len(graphs) == 1


@torch.no_grad()
def test_limit_16_static_kernels_of_every_size_in_the_background(device: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 3, -1)

    fn = compiled(f, dynamic=True, static_kernel_compile=True, gears=None)
    made = []
    for rows in (3, 5):
        x = torch.randn(rows, 6, device=device)
        assert_same(fn(x), f(x))  # at once, by code for any size
        deadline = time.monotonic() + 30
        while counters()["specialised"] == sum(made) and time.monotonic() < deadline:
            time.sleep(0.01)
        made.append(counters()["specialised"] - sum(made))
        assert_same(fn(x), f(x))
    assert all(made)


@torch.no_grad()
@pytest.mark.parametrize("k", [512, 511])
def test_limit_17_fusion_has_no_list_and_no_alignment(k: int, device: str) -> None:
    def transposed(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.bmm(a, b).transpose(0, 1)

    def of_no_list(x: torch.Tensor) -> torch.Tensor:
        y = torch.sigmoid(x) * x.cos() - x.abs().sqrt()
        return y - y.amax(-1, keepdim=True)

    a, b = torch.randn(8, 4, k, device=device) / 9, torch.randn(8, k, 16, device=device) / 9
    for fn, args in ((transposed, (a, b)), (of_no_list, (a[0],))):
        assert_same(compiled(fn)(*args), fn(*args), tolerance=1e-4)
        assert counters()["launches"] == 1


@torch.no_grad()
def test_limit_18_numbers_and_tensors_of_the_host_are_inputs_like_others(device: str) -> None:
    """Several devices in one process: tests/gpu."""

    def fn(x: torch.Tensor, scale: torch.Tensor, factor: float) -> torch.Tensor:
        return x * scale + factor

    compiled_fn = compiled(fn, dynamic=True)
    for scale, factor in ((2.0, 1.5), (3.0, 0.25)):
        x, number = torch.randn(3, device=device), torch.tensor(scale)
        assert_same(compiled_fn(x, number, factor), fn(x, number, factor))
    assert gex.reports()[-1].runner.counters["captures"] == 1


HANDLERS = """
import os, signal
before = {s: signal.getsignal(s) for s in signal.valid_signals()}
import torch, gex
torch.compile(lambda x: x.exp(), backend="npugraph_ex")(torch.ones(3))
after = {s: signal.getsignal(s) for s in signal.valid_signals()}
print(before == after, flush=True)
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_limit_19_no_signal_handlers_are_installed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANDLERS],
        capture_output=True,
        text=True,
        env=dict(os.environ),
        timeout=200,
        check=False,
    )
    assert done.stdout.strip() == "True", done.stderr
    assert done.returncode == -15


@torch.no_grad()
def test_limit_20_compile_fx_has_streams_too(device: str) -> None:
    side, ready = Stream(), Event()

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        ready.record()
        with stream(side):
            ready.wait()
            z = y @ y
        return y + z

    def backend(gm: Any, inputs: Any) -> Any:
        return aot_module_simplified(gm, inputs, fw_compiler=compile_fx)

    x = torch.randn(3, 3, device=device)
    assert_same(torch.compile(fn, backend=backend, fullgraph=True)(x), fn(x))
    streams = gex.reports()[-1].streams
    assert streams.nodes[f"stream_{side.stream_id}"] == 1
    assert streams.waits
