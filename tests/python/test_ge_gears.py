"""Acceptance cases about gears and shape handling."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn

import gex
from conftest import assert_same, last_report
from gex.npugraph_ex import NPUShapeHandling, dim_gears, shape_handling
from gex.options.shape_handling import parse_configs
from gex.options.table import GEX_OPTIONS, Config
from graph_counts import compiled


def batch(**fields: Any) -> list[dict[str, Any]]:
    return [{"type": "BATCHSIZE", **fields}]


def sequence(**fields: Any) -> list[dict[str, Any]]:
    return [{"type": "SEQLEN", **fields}]


# --- gears of a graph -------------------------------------------------------------------------


def test_case_59_a_batch_between_gears_and_one_that_is_refused(device: str) -> None:
    parts = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2)).to(device)

    def model(data: torch.Tensor) -> torch.Tensor:
        return parts(data)

    gears = dim_gears("data:-1,4", dynamic_batch_size="2,4,8")
    with torch.no_grad():
        fn = torch.compile(model, backend="gex", dynamic=True, options={"gears": gears})
        for rows in (2, 4, 8, 3, 4):
            x = torch.randn(rows, 4, device=device)
            assert_same(fn(x), model(x))
        assert sorted(c["key"] for c in last_report().runner.captures) == [[2], [4], [8]]
        torch._dynamo.reset()
        options = {"gears": gears, "gears_only": True}
        strict = torch.compile(model, backend="gex", dynamic=True, options=options)
        x = torch.randn(8, 4, device=device)
        assert_same(strict(x), model(x))
        with pytest.raises(gex.UserError, match=r"size 3 is not one of the gears \(2, 4, 8\)"):
            strict(torch.randn(3, 4, device=device))


def test_case_59_gears_share_the_weight_and_work_that_no_size_changes(device: str) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 4, device=device))
            self.constant = nn.Parameter(torch.randn(6, 8, device=device))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x @ self.weight).softmax(-1) @ torch.relu(self.constant[:4, :4])

    model = Model().to(device)
    fn = compiled(model, dynamic=True, gears=[4, 16], frozen_parameter=True)
    with torch.no_grad():
        for rows in (3, 5, 9, 16):
            x = torch.randn(rows, 4, device=device)
            assert_same(fn(x), model(x))
    runner = last_report().runner
    assert len(runner.captures) == 2
    assert runner.counters["launches"] == 4 * runner.text("program").count("launch "), (
        "the same launches for each gear; what depends on constants alone ran before"
    )
    assert "relu" not in runner.text("kernels")


def test_case_60_sizes_of_three_inputs_change_together(device: str) -> None:
    shape = "data:1,1,40,-1;label:1,-1;mask:-1,-1"
    gears = dim_gears(shape, dynamic_dims="20,20,1,1;40,40,2,2;80,60,4,4")

    def function(data: torch.Tensor, label: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return (data.softmax(-1) @ label.t()).sum() * mask.softmax(0).sum()

    fn = compiled(function, dynamic=None, gears=gears)
    with torch.no_grad():
        for width, length, side in ((20, 20, 2), (40, 40, 2), (30, 30, 3)):
            inputs = (
                torch.randn(1, 1, 40, width, device=device),
                torch.randn(1, length, device=device),
                torch.randn(side, side, device=device),
            )
            assert_same(fn(*inputs), function(*inputs), tolerance=1e-4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dynamic_dims": "20,20,1,1"}, "2 to 100 gears, got 1"),
        ({"dynamic_dims": ";".join(f"{n},1,1,1" for n in range(1, 102))}, "gears, got 101"),
        ({"dynamic_dims": "20,20,1,1;20,20,1,1"}, "listed twice"),
        ({"dynamic_dims": "20,20,0,1;20,20,1,1"}, "must be positive"),
        ({"dynamic_dims": "20,20,1;20,20,1,1"}, "must have 4 sizes"),
        ({"dynamic_dims": "1,2,3,4;2,2,2,2", "dynamic_batch_size": "1,2"}, "exactly one of"),
    ],
)
def test_case_60_wrong_gears(given: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dim_gears("data:1,1,40,-1;label:1,-1;mask:-1,-1", **given)


# --- shape handling ---------------------------------------------------------------------------


def test_case_76_gears_by_policy() -> None:
    def gears(**fields: Any) -> tuple[int, ...]:
        return parse_configs(batch(**fields))[0].gears

    assert gears(min_size=3, max_size=20) == (3, 4, 8, 16, 20)
    assert len(gears(min_size=1, max_size=1024)) == 11
    (config,) = parse_configs(batch(min_size=16, max_size=256))
    assert [config.gear_for(size) for size in (48, 96)] == [64, 128]


def layers(device: str) -> nn.Module:
    return nn.Sequential(nn.Linear(32, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 8)).to(
        device
    )


def graphs_for(fn: Any, model: nn.Module, sizes: tuple[int, ...], device: str) -> int:
    with gex.collect() as graphs, torch.no_grad():
        for rows in sizes:
            x = torch.randn(rows, 32, device=device)
            assert_same(fn(x), model(x), tolerance=1e-4)
    return len(graphs)


@pytest.mark.parametrize("backend", ["gex", "npugraph_ex", "npugraphs"])
def test_case_77_fewer_compiles(backend: str, device: str) -> None:
    model, sizes = layers(device), (3, 4, 5, 6)

    def compiles(wrap: bool = False, **kwargs: Any) -> int:
        torch._dynamo.reset()
        fn = torch.compile(model, backend=backend, **kwargs)
        return graphs_for(shape_handling(fn) if wrap else fn, model, sizes, device)

    assert compiles(dynamic=False) == 4
    assert compiles(dynamic=False, options={"enable_shape_handling": True}) == 1
    assert compiles(dynamic=False, wrap=True) == 2, "padded to 4 and to 8"
    assert compiles(dynamic=True) == 1


def test_case_77_large_batches_are_split(device: str) -> None:
    model = layers(device)
    fn = shape_handling(torch.compile(model, backend="gex", dynamic=False), batch(gears=[64, 128]))
    assert graphs_for(fn, model, (200,), device) == 1, "128 rows and 72, padded to 128"
    assert fn.counts["split"] == 1
    fn = shape_handling(torch.compile(model, backend="gex", dynamic=False), batch(max_size=1024))
    torch._dynamo.reset()
    assert graphs_for(fn, model, (1025, 2048, 10240), device) == 2, "1024 rows, and 1"


def test_case_78_a_padded_sequence_is_trimmed(device: str) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4)).to(device)
    fn = shape_handling(torch.compile(model, backend="gex", dynamic=False), sequence(gears=[128]))
    x = torch.randn(2, 96, 8, device=device)
    with torch.no_grad():
        got = fn(x)
    assert got.shape == (2, 96, 4)
    torch.testing.assert_close(got, model(x).detach(), rtol=1e-4, atol=1e-4)
    assert fn.counts["padded"] == 1


@pytest.mark.parametrize(
    ("name", "function", "op"),
    [
        ("softmax", lambda x: x.softmax(1), "_softmax"),
        ("mean", lambda x: x.mean(1), "mean"),
        ("sum of all", lambda x: x.sum(), "sum"),
        ("product over it", lambda x: x.transpose(1, 2) @ x, "bmm"),
        ("norm over it", lambda x: nn.functional.layer_norm(x, x.shape[1:]), "native_layer_norm"),
        ("the last position", lambda x: x[:, -1] * 2, "select"),
        ("the other way round", lambda x: x.flip(1), "flip"),
        ("joined along it", lambda x: torch.cat([x, x * 2], 1), "cat"),
        ("flattened", lambda x: (x * 2).flatten(0, 1), "result 0"),
    ],
)
def test_case_78_functions_that_padding_would_change_run_unpadded(
    name: str, function: Any, op: str, device: str
) -> None:
    fn = shape_handling(torch.compile(function, backend="gex"), sequence(gears=[128]))
    x = torch.randn(2, 96, 8, device=device)
    with pytest.warns(UserWarning, match=op):
        assert_same(fn(x), function(x), tolerance=1e-4)
    assert fn.counts["refused"] == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(fn(x), function(x), tolerance=1e-4)  # told once


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("softmax over another dim", lambda x: x.softmax(-1)),
        ("causal attention", lambda x: nn.functional.scaled_dot_product_attention(
            x[:, None], x[:, None], x[:, None], is_causal=True)[:, 0]),
        ("rows flattened and put back", lambda x: (x.flatten(0, 1) @ x.new_ones(8, 3)).view(
            x.shape[0], x.shape[1], 3)),
        ("running sum", lambda x: x.cumsum(1)),
        ("the first position", lambda x: x[:, 0] * 2),
    ],
)  # fmt: skip
def test_case_78_functions_that_padding_does_not_change_are_padded(
    name: str, function: Any, device: str
) -> None:
    fn = shape_handling(torch.compile(function, backend="gex"), sequence(gears=[128], value=7.0))
    x = torch.randn(2, 96, 8, device=device)
    got, want = fn(x), function(x)
    assert got.shape == want.shape
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    assert fn.counts["padded"] == 1


def test_case_78_a_sequence_above_the_largest_gear_runs_unpadded(device: str) -> None:
    fn = shape_handling(torch.compile(torch.tanh, backend="gex"), sequence(gears=[16]))
    x = torch.randn(2, 17, device=device)
    assert_same(fn(x), x.tanh())
    assert fn.counts["too_long"] == 1


@pytest.mark.parametrize(
    ("configs", "error"),
    [
        (batch(min_size=8, max_size=4), ValueError),
        (batch() + sequence() + batch(), ValueError),
        (batch() + batch(), ValueError),
        ([{"type": "HEADS"}], ValueError),
        (batch(gear=[4]), ValueError),
        (batch(policy="CUSTOM"), ValueError),
        (batch(policy="PLUS"), ValueError),
        (batch(dimensions=[0, 1]), ValueError),
        (batch(dimensions=-1), RuntimeError),
        (batch(gears=[4, 4]), RuntimeError),
        (batch(gears=[10000]), RuntimeError),
        (batch(gears=list(range(1, 66))), RuntimeError),
    ],
)
def test_case_78_wrong_configs(configs: Any, error: type) -> None:
    with pytest.raises(error):
        Config(GEX_OPTIONS, {"shape_handling_configs": configs})
    with pytest.raises(error):
        shape_handling(torch.tanh, configs)


@pytest.mark.parametrize("how", ["wrapper", "option"])
def test_case_78_gradients_of_a_split_batch(how: str, device: str) -> None:
    model = layers(device)
    configs = batch(gears=[64, 128])
    options = {"enable_shape_handling": True, "shape_handling_configs": configs}
    fn = torch.compile(model, backend="gex", options=options if how == "option" else None)
    if how == "wrapper":
        fn = shape_handling(fn, configs)
    x = torch.randn(200, 32, device=device, requires_grad=True)
    results = []
    for call in (fn, model):
        model.zero_grad()
        x.grad = None
        call(x).square().mean().backward()
        results.append([x.grad, *(p.grad for p in model.parameters())])
    for got, want in zip(*results):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_case_78_a_failed_call_leaves_nothing_behind(device: str) -> None:
    fail = True

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    class Failing:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            if fail and not isinstance(x, torch._subclasses.FakeTensor):
                raise KeyError("on purpose")
            return function(x)

    fn = shape_handling(Failing(), batch(gears=[4, 8]))
    x = torch.randn(3, 2, device=device)
    with pytest.raises(KeyError):
        fn(x)
    fail = False
    whole = torch.randn(8, 2, device=device)
    assert_same(fn(whole), whole * 2)
    assert_same(fn(x), x * 2)


def test_a_reduced_result_of_a_split_batch_runs_unsplit(device: str) -> None:
    fn = shape_handling(torch.compile(lambda x: x.amax(-1) * 2, backend="gex"), batch(gears=[4]))
    x = torch.randn(9, 3, device=device)
    assert_same(fn(x), x.amax(-1) * 2)
    assert fn.counts["split"] == 1
    fn = shape_handling(
        torch.compile(lambda x: (x, x.new_ones(3)), backend="gex"), batch(gears=[4])
    )
    with pytest.warns(UserWarning, match="result 1 does not have the batch"):
        assert_same(fn(x), (x, x.new_ones(3)))


def test_hooks_and_the_class(device: str) -> None:
    x, y = torch.randn(5, 3, device=device), torch.randn(5, device=device)
    handling = NPUShapeHandling(batch(gears=[2, 4]))
    groups = handling.transform([x, y])
    assert [[tuple(t.shape) for t in g] for g in groups] == [[(4, 3), (4,)], [(1 + 1, 3), (2,)]]
    back = handling.recover([[a * 2, b] for a, b in groups])
    assert_same(back, [x * 2, y])
    with pytest.raises(RuntimeError, match="must follow a transform"):
        handling.recover(groups)
    with pytest.raises(ValueError, match="have different sizes"):
        handling.transform([x, y[:2]])
    seen = []
    hooks = {"trans_post_fn": lambda groups: seen.append(len(groups)) or groups}
    assert_same(shape_handling(torch.exp, batch(gears=[2, 4]), hooks)(x), x.exp())
    assert seen == [2]
    with pytest.raises(ValueError, match="hooks would never"):
        Config(GEX_OPTIONS, {"shape_handling_dict": hooks})


def test_two_dims_of_one_tensor_are_traced_as_symbols(device: str) -> None:
    configs = [{"type": "BATCHSIZE", "dimensions": 0}, {"type": "SEQLEN", "dimensions": 1}]
    options = {"enable_shape_handling": True, "shape_handling_configs": configs}
    fn = torch.compile(lambda x: x * 2, backend="npugraph_ex", dynamic=False, options=options)
    with gex.collect() as graphs:
        for n in (3, 4, 5):
            x = torch.randn(n, n + 4, device=device)
            torch.testing.assert_close(fn(x), x * 2)
    assert len(graphs) == 1


def test_the_option_marks_no_tensor_permanently(device: str) -> None:
    fn = torch.compile(lambda x: x * 2, backend="gex", options={"enable_shape_handling": True})
    x = torch.randn(3, 2, device=device)
    before = dir(x)
    assert_same(fn(x), x * 2)
    assert dir(x) == before


def test_a_size_that_the_function_fixes_stays_a_number(device: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.view(3, -1) * 2 if x.shape[0] == 3 else x + 1

    options = {"enable_shape_handling": True}
    fn = torch.compile(function, backend="gex", dynamic=False, options=options)
    for rows in (3, 4, 5):
        x = torch.randn(rows, 2, device=device)
        assert_same(fn(x), function(x))
