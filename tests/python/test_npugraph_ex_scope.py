"""Blocks with a core limit or a deterministic level, limits of streams, concurrent streams."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import gex
from conftest import assert_same, last_report
from gex import _gex, core_limits, determinism
from gex.fx_stage.scope_ops import SCOPE_ENTER, SCOPE_EXIT
from gex.npu import streams
from gex.npu.streams import Event, Stream, stream
from gex.npugraph_ex import compile_fx, inference, scope

Function = Callable[..., Any]
_LAUNCH = re.compile(r'launch "(?P<name>[^"]*)".*?(?: threads (?P<threads>\d+))?(?: at "|$)')


@pytest.fixture(autouse=True)
def no_limits() -> Iterator[None]:
    yield
    _gex.set_device_limit((0, 0))
    _gex.set_stream_limit(0, None)
    determinism.set_deterministic_level(0)


def compile_fn(fn: Function, **kwargs: Any) -> Function:
    return torch.compile(fn, backend="npugraph_ex", fullgraph=True, **kwargs)


def threads(report: gex.GraphReport) -> dict[str, int]:
    """By launch, how many threads it may use; 0: all."""
    found = map(_LAUNCH.search, report.runner.text("program").splitlines())
    return {f["name"]: int(f["threads"] or 0) for f in found if f}


def check(fn: Function, *args: torch.Tensor) -> gex.GraphReport:
    compiled = compile_fn(fn)
    for _ in range(3):
        assert_same(compiled(*args), fn(*args))
    return last_report()


@pytest.fixture
def x64(device: str) -> torch.Tensor:
    return torch.randn(64, 64, device=device)


def test_case_59_the_inner_limit_wins_and_the_outer_one_comes_back(x64: torch.Tensor) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        a = x.exp()
        with scope.limit_core_num(2, 4):
            b = a.sin().sort(0).values @ x.neg()
            with scope.limit_core_num(12, 24):
                c = b.cos().sum(0)
            d = c.tanh()
        return d.abs()

    report = check(fn, x64)
    want = {"exp": 0, "sin": 4, "sort": 4, "neg+matmul": 2, "cos+reduce_sum": 24}
    want |= {"tanh": 4, "abs": 0}
    assert threads(report) == want
    assert "core limit (2, 4)" in report.text()
    assert "core limit (12, 24)" in report.text()


def test_case_59_a_stream_inside_the_block_inherits_the_limit(x64: torch.Tensor) -> None:
    side = Stream()

    def fn(x: torch.Tensor) -> torch.Tensor:
        with scope.limit_core_num(2, 4):
            with stream(side):
                y = x.exp()
            streams.set_stream(side)
            y = y.sum(0)
            streams.set_stream(streams.default_stream())
        return y.softmax(0)

    report = check(fn, x64)
    assert threads(report)["exp+reduce_sum"] == 4
    assert len(report.streams.side) == 1


def test_case_59_with_a_stream_only_its_nodes_are_limited(x64: torch.Tensor) -> None:
    side = Stream()

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with scope.limit_core_num(2, 4, stream=side):
            y = x.exp()
            with stream(side):
                z = x.sin()
        return y, z

    assert threads(check(fn, x64)) == {"exp": 0, "sin": 4}


def test_case_59_outside_of_a_graph_the_stream_is_limited_and_restored() -> None:
    side = Stream()
    most = dict(zip(("cube_core_num", "vector_core_num"), core_limits.maximum()))
    with scope.limit_core_num(2, 4):
        assert core_limits.get_stream_limit(streams.default_stream()) == {
            "cube_core_num": 2,
            "vector_core_num": 4,
        }
        with scope.limit_core_num(12, 24, stream=side), scope.limit_core_num(1, 1):
            assert tuple(core_limits.get_stream_limit(side).values()) == (12, 24)
            assert tuple(_gex.stream_limit(0)) == (1, 1)
        assert tuple(_gex.stream_limit(0)) == (2, 4)
    assert core_limits.get_stream_limit(streams.default_stream()) == most
    assert core_limits.get_stream_limit(side) == most


def test_a_limit_holds_in_training_too(x64: torch.Tensor, device: str) -> None:
    w = torch.randn(64, 64, requires_grad=True, device=device)

    def fn(x: torch.Tensor) -> torch.Tensor:
        with scope.limit_core_num(2, 4):
            a = (x @ w).exp()
        with scope.limit_core_num(2, 4):
            b = (a @ w).sin()
        return b.sum()

    compiled = compile_fn(fn)
    with gex.collect() as graphs:
        (got,) = torch.autograd.grad(compiled(x64 * 0.01), w)
    (want,) = torch.autograd.grad(fn(x64 * 0.01), w)
    assert_same(got, want, 1e-3)
    assert set(threads(graphs[0]).values()) >= {2}


def test_limits_reach_a_graph_that_is_given_to_compile_fx(x64: torch.Tensor) -> None:
    from torch._functorch.aot_autograd import aot_module_simplified

    def inner(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        return compile_fx(gm, inputs)

    def backend(gm: torch.fx.GraphModule, inputs: Any) -> Any:
        return aot_module_simplified(gm, inputs, fw_compiler=inner)

    def fn(x: torch.Tensor) -> torch.Tensor:
        with scope.limit_core_num(2, 4):
            return x.exp()

    assert_same(torch.compile(fn, backend=backend, fullgraph=True)(x64), fn(x64))
    assert threads(last_report()) == {"exp": 4}


def test_a_pass_may_set_limits(x64: torch.Tensor) -> None:
    def limit_sines(gm: torch.fx.GraphModule, _: Any, __: Any) -> None:
        (sine,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default)
        keys, values = ["_op_aicore_num", "_op_vectorcore_num"], ["3", "5"]
        with gm.graph.inserting_before(sine):
            gm.graph.call_function(SCOPE_ENTER, (keys, values))
        with gm.graph.inserting_after(sine):
            gm.graph.call_function(SCOPE_EXIT)

    options = {"post_grad_custom_pre_pass": limit_sines}
    compile_fn(lambda x: x.exp().sin(), options=options)(x64)
    assert threads(last_report()) == {"exp": 0, "sin": 5}


def test_a_block_that_is_not_left_names_the_pair(x64: torch.Tensor) -> None:
    def enter_only(gm: torch.fx.GraphModule, _: Any, __: Any) -> None:
        first = next(n for n in gm.graph.nodes if n.op == "call_function")
        with gm.graph.inserting_before(first):
            gm.graph.call_function(SCOPE_ENTER, (["_op_aicore_num"], ["3"]))

    options = {"post_grad_custom_pre_pass": enter_only}
    with pytest.raises(Exception, match=r"has no matching scope_exit.*graph break"):
        compile_fn(lambda x: x.exp(), options=options)(x64)


@pytest.mark.parametrize("cores", [(0, 4), (2, 0), (-2, 4), (2, 10**6)])
def test_numbers_out_of_range_are_refused(cores: tuple[int, int], x64: torch.Tensor) -> None:
    with pytest.raises(ValueError, match="must be 1 to"):
        scope.limit_core_num(*cores)
    with pytest.raises(ValueError, match="must be 1 to"):
        core_limits.set_stream_limit(streams.default_stream(), *cores)

    def fn(x: torch.Tensor) -> torch.Tensor:
        with scope.limit_core_num(*cores):
            return x + 1

    with pytest.raises(Exception, match="must be 1 to"):
        compile_fn(fn)(x64)


def test_a_number_of_cores_is_an_int() -> None:
    for wrong in (True, "2", 2.0, None):
        with pytest.raises(TypeError, match="must be an int"):
            scope.limit_core_num(wrong, 4)  # type: ignore[arg-type]


def test_case_60_a_changed_limit_of_the_callers_stream_is_counted(device: str) -> None:
    torch._dynamo.utils.counters.clear()
    big = torch.randn(512, 512, device=device)
    compiled = compile_fn(lambda x: (x @ x).exp().sum(1))
    want = compiled(big)
    name = f"recapture_due_to_global_limit_core_change_{last_report().name}"
    counters = torch._dynamo.utils.counters["npugraph_ex"]
    engine = last_report().runner
    assert counters[name] == 0

    core_limits.set_stream_limit(streams.default_stream(), 1, 1)
    for _ in range(3):
        assert torch.equal(compiled(big), want)
    assert counters[name] == 1
    assert counters[f"captured_{last_report().name}"] == 1
    limited = engine.counters["limited_launches"]
    if torch.get_num_threads() > 1:
        assert limited > 0

    core_limits.reset_stream_limit(streams.default_stream())
    assert torch.equal(compiled(big), want)
    assert counters[name] == 2
    assert engine.counters["limited_launches"] == limited
    assert "the core limit of the caller's stream changed" in last_report().text()


def test_case_60_the_limit_is_that_of_the_stream_that_the_caller_is_on(x64: torch.Tensor) -> None:
    side = Stream()
    core_limits.set_stream_limit(side, 1, 1)
    compiled = compile_fn(lambda x: x + 1)
    compiled(x64)
    engine = last_report().runner
    compiled(x64)
    assert engine.counters["limit_recaptures"] == 0
    with stream(side):
        compiled(x64)
        compiled(x64)
    assert engine.counters["limit_recaptures"] == 1
    compiled(x64)
    assert engine.counters["limit_recaptures"] == 2


def test_the_limit_of_the_device_holds_where_a_stream_has_none() -> None:
    core_limits.set_device_limit(None, 3, 5)
    side = Stream()
    assert tuple(core_limits.get_stream_limit(side).values()) == (3, 5)
    core_limits.set_stream_limit(side, vector_num=2)
    assert tuple(core_limits.get_stream_limit(side).values()) == (3, 2)
    assert tuple(core_limits.get_device_limit().values()) == (3, 5)


# --- deterministic levels -----------------------------------------------------------------------


def test_each_level_of_the_process_is_compiled_once(x64: torch.Tensor) -> None:
    compiled = compile_fn(lambda x: x.exp())
    with gex.collect() as graphs:
        for level in (1, 2, 1, 2):
            determinism.set_deterministic_level(level)
            assert determinism.get_deterministic_level() == level
            compiled(x64)
    assert len(graphs) == 2
    with gex.collect() as graphs:
        determinism.set_deterministic_level(0)
        compiled(x64)
        torch.use_deterministic_algorithms(True)
        assert determinism.get_deterministic_level() == 1
    assert len(graphs) == 1


_seen: list[bool] = []


@torch.library.custom_op("gex_test::note_switch", mutates_args=())
def _note_switch(x: torch.Tensor) -> torch.Tensor:
    _seen.append(torch.are_deterministic_algorithms_enabled())
    return x.clone()


@_note_switch.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_calls_in_a_deterministic_block_run_under_pytorchs_switch(x64: torch.Tensor) -> None:
    note = torch.ops.gex_test.note_switch

    def fn(x: torch.Tensor) -> torch.Tensor:
        x = note(x)
        with scope.deterministic(1):
            x = note(x)
            with scope.deterministic(0):
                x = note(x)
        return note(x)

    compiled = compile_fn(fn)
    compiled(x64)
    _seen.clear()
    compiled(x64)
    assert _seen == [False, True, False, False]
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_level_is_one_of_four(x64: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"level 4: must be one of \[0, 1, 2, 3\]"):
        scope.deterministic(4)
    with pytest.raises(TypeError, match="is an int"):
        scope.deterministic("1")  # type: ignore[arg-type]

    def fn(x: torch.Tensor) -> torch.Tensor:
        with scope.deterministic(7):
            return x + 1

    with pytest.raises(Exception, match="level 7"):
        compile_fn(fn)(x64)


def test_outside_of_a_graph_the_block_sets_and_restores_the_level() -> None:
    with scope.deterministic(2):
        assert determinism.get_deterministic_level() == 2
        with scope.deterministic(0):
            assert not torch.are_deterministic_algorithms_enabled()
        assert determinism.get_deterministic_level() == 2
    assert determinism.get_deterministic_level() == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_has_the_same_bits_at_any_position(dtype: torch.dtype, device: str) -> None:
    w, g = torch.randn(80, 64, device=device).to(dtype), torch.randn(64, device=device).to(dtype)

    def fn(x: torch.Tensor) -> torch.Tensor:
        with scope.deterministic(2):
            y = torch.nn.functional.layer_norm(x, (64,), g)
            return torch.nn.functional.linear(y, w).softmax(-1)

    compiled = compile_fn(fn)
    x, order = torch.randn(37, 64, device=device).to(dtype), torch.randperm(37, device=device)
    assert torch.equal(compiled(x[order]), compiled(x)[order])


@pytest.mark.parametrize("shape", [(256, 80), (5000, 40)])
def test_at_level_3_a_row_has_the_same_bits_in_any_batch(
    shape: tuple[int, int], device: str
) -> None:
    w = torch.randn(shape[1], shape[0], device=device)

    def fn(x: torch.Tensor, level: int) -> torch.Tensor:
        with scope.deterministic(level):
            return torch.nn.functional.linear(x, w).softmax(-1)

    compiled = compile_fn(fn, dynamic=True)
    x = torch.randn(64, shape[0], device=device)
    whole = {level: compiled(x, level) for level in (0, 3)}
    differs = False
    for rows in (2, 5, 8, 9, 33):
        assert torch.equal(compiled(x[:rows].clone(), 3), whole[3][:rows]), rows
        differs |= not torch.equal(compiled(x[:rows].clone(), 0), whole[0][:rows])
    assert differs  # or the level would change nothing


def test_level_3_of_the_process_holds_without_a_block(device: str) -> None:
    w = torch.randn(80, 256, device=device)
    compiled = compile_fn(lambda x: torch.nn.functional.linear(x, w), dynamic=True)
    x = torch.randn(64, 256, device=device)
    determinism.set_deterministic_level(3)
    whole = compiled(x)
    for rows in (2, 8):
        assert torch.equal(compiled(x[:rows].clone()), whole[:rows])


# --- streams side by side -----------------------------------------------------------------------


def two_products(side: Stream) -> Function:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        a = (x @ w).softmax(-1)
        with stream(side):
            b = (x @ w.t()).relu().mean(0)
            b = b * b.tanh()
        return a + b

    return fn


@pytest.mark.alone
def test_streams_run_side_by_side_with_the_values_of_one(device: str) -> None:
    fn = two_products(Stream())
    compiled = compile_fn(fn)
    w = torch.randn(256, 256, device=device) * 0.05
    for _ in range(30):
        x = torch.randn(256, 256, device=device)
        assert_same(compiled(x, w), fn(x, w))
    program, engine = last_report().runner.text("program"), last_report().runner
    assert "streams 2" in program
    assert "wait" in program
    want = compiled(x, w)
    for _ in range(3000):  # whether two workers meet is up to the system
        if torch.get_num_threads() == 1 or engine.counters["overlapped_launches"] > 0:
            break
        assert torch.equal(compiled(x, w), want)
    else:
        pytest.fail("the streams never ran at the same time")


def test_streams_of_small_steps_cost_nothing(device: str) -> None:
    fn = two_products(Stream())
    compiled = compile_fn(fn)
    compiled(torch.randn(4, 4, device=device), torch.randn(4, 4, device=device))
    assert "stream" not in last_report().runner.text("program")


def test_case_44_operators_that_write_several_intermediates_and_a_use_on_another_stream(
    device: str,
) -> None:
    side = Stream()

    def fn(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        a, b = (x @ w).clone(), (w @ x).clone()
        torch._foreach_mul_([a, b], 2.0)
        torch._foreach_add_([a, b], 1.0)
        c = a.sum(0)
        with stream(side):
            d = (b @ w).relu()
            b.add_(1)
        return a, b + c, d

    x, w = torch.randn(2, 128, 128, device=device)
    compiled = compile_fn(fn)
    for _ in range(50):
        assert_same(compiled(x, w), fn(x, w), 1e-3)
    assert last_report().missed_in_place == (0, 0)


@torch.library.custom_op("gex_test::scale_both", mutates_args=("a", "b"))
def _scale_both(a: torch.Tensor, b: torch.Tensor) -> None:
    a.mul_(2)
    b.mul_(3)


@pytest.mark.parametrize("later_use", [False, True])
def test_case_44_a_custom_operator_that_writes_two_intermediates(
    later_use: bool, device: str
) -> None:
    """Without a later use of the old contents both are written where they are."""
    side = Stream()

    def fn(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b = x @ w, w @ x
        old = a.sum(0) if later_use else x.sum(0)
        torch.ops.gex_test.scale_both(a, b)
        with stream(side):
            c = b @ w
        return a, c, old

    x, w = torch.randn(2, 128, 128, device=device)
    compiled = compile_fn(fn)
    for _ in range(10):
        assert_same(compiled(x, w), fn(x, w), 1e-3)
    assert last_report().missed_in_place[0] == 0


def test_case_62_streams_and_events_in_a_function_that_is_kept(tmp_path: Any, device: str) -> None:
    side, ready = Stream(), Event()

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(256, 256, device=device) * 0.05)
            self.run = inference.cache_compile(self.step, cache_dir=str(tmp_path))

        def step(self, x: torch.Tensor) -> torch.Tensor:
            a = (x @ self.w).softmax(-1)
            ready.record()
            with stream(side):
                ready.wait(side)
                with scope.limit_core_num(1, 1):
                    b = (x @ self.w.t()).relu().mean(0)
            return a + b

    x = torch.randn(256, 256, device=device)
    first = Model()
    want = first.run(x)
    assert_same(want, first.step(x))
    kept = last_report()
    assert "streams 2" in kept.runner.text("program")
    torch._dynamo.reset()
    second = Model()
    second.load_state_dict(first.state_dict())
    with gex.collect() as graphs:
        for _ in range(20):
            assert torch.equal(second.run(x), want)
    assert [g.name.startswith("cached_") for g in graphs] == [True]
    program = graphs[0].runner.text("program")
    assert "streams 2" in program
    assert " threads 1" in program
