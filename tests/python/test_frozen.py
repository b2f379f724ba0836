"""frozen_parameter: parameters are bound once, and what happens when they change anyway."""

from __future__ import annotations

import copy
import gc
import os
import re
import subprocess
import sys
import textwrap
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import gex

FROZEN = {"frozen_parameter": True}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 12)).eval()


def compiled(model: nn.Module, x: torch.Tensor) -> tuple[Any, Any]:
    """The compiled module after its first call, and the runner of its one graph."""
    with gex.collect() as graphs:
        call = torch.compile(model, backend="npugraph_ex", options=FROZEN, fullgraph=True)
        call(x)
    assert len(graphs) == 1
    return call, graphs[0].runner


def input_lines(runner: Any) -> list[str]:
    return [line for line in runner.text("program").splitlines() if line.startswith("input ")]


def test_parameters_are_not_inputs_of_the_program() -> None:
    model, x = mlp(), torch.randn(16, 24)
    call, runner = compiled(model, x)
    assert len(input_lines(runner)) == 1
    torch.testing.assert_close(call(x), model(x))


def test_packed_weights_give_the_same_bits_as_unpacked() -> None:
    model, x = mlp(), torch.randn(16, 24)
    call, runner = compiled(model, x)
    assert runner.counters["packed_bytes"] > 0
    torch._dynamo.reset()
    unpacked = torch.compile(copy.deepcopy(model), backend="npugraph_ex", fullgraph=True)
    assert torch.equal(call(x), unpacked(x))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_packed_convolutions_give_the_same_bits_as_unpacked(layout: torch.memory_format) -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, stride=2, groups=2)
    ).eval()
    model.to(memory_format=layout)
    x = torch.randn(2, 3, 17, 19)
    call, runner = compiled(model, x)
    assert runner.counters["packed_bytes"] > 0
    torch.testing.assert_close(call(x), model(x))
    torch._dynamo.reset()
    unpacked = torch.compile(copy.deepcopy(model), backend="npugraph_ex", fullgraph=True)
    assert torch.equal(call(x), unpacked(x))


def test_weights_read_by_few_rows_are_not_packed() -> None:
    model, x = mlp(), torch.randn(2, 24)
    call, runner = compiled(model, x)
    assert "packed_bytes" not in runner.counters
    torch.testing.assert_close(call(x), model(x))


def test_packed_weights_serve_every_length() -> None:
    model = mlp()
    call = torch.compile(model, backend="npugraph_ex", options=FROZEN, dynamic=True)
    for rows in (2, 5, 9, 33, 200):
        x = torch.randn(rows, 24)
        torch.testing.assert_close(call(x), model(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_packed_weights_of_other_types(dtype: torch.dtype) -> None:
    model, x = mlp().to(dtype), torch.randn(16, 24, dtype=dtype)
    call, runner = compiled(model, x)
    assert runner.counters["packed_bytes"] > 0
    torch.testing.assert_close(call(x), model(x))


class Batched(nn.Module):
    """A weight for each batch entry, and one that all share."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Parameter(torch.randn(3, 20, 18))
        self.shared = nn.Parameter(torch.randn(18, 33))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.matmul(torch.bmm(x, self.own), self.shared)


def test_batches_of_packed_weights() -> None:
    model, x = Batched(), torch.randn(3, 10, 20)
    call, runner = compiled(model, x)
    assert runner.counters["packed_bytes"] > 0
    torch.testing.assert_close(call(x), model(x))


class WeightNormed(nn.Module):
    """Half of the work depends on parameters alone."""

    def __init__(self) -> None:
        super().__init__()
        self.direction = nn.Parameter(torch.randn(12, 24))
        self.size = nn.Parameter(torch.rand(12, 1) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.size * self.direction / self.direction.norm(dim=1, keepdim=True)
        return nn.functional.linear(x, weight).relu()


def test_values_that_depend_only_on_parameters_are_computed_once() -> None:
    model, x = WeightNormed(), torch.randn(16, 24)
    call, runner = compiled(model, x)
    assert runner.counters["folded_with_frozen"] > 0
    launches = [s for s in runner.text("program").splitlines() if s.startswith("  launch")]
    assert len(launches) == 1
    torch.testing.assert_close(call(x), model(x))


@pytest.mark.slow
def test_a_thousand_parameters() -> None:
    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps = nn.ParameterList(nn.Parameter(torch.randn(4)) for _ in range(1000))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for step in self.steps:
                x = torch.tanh(x + step)
            return x

    model, x = Chain(), torch.randn(4)
    call, runner = compiled(model, x)
    assert len(input_lines(runner)) == 1
    torch.testing.assert_close(call(x), model(x))
    x = torch.randn(4)
    torch.testing.assert_close(call(x), model(x))


def test_calls_do_not_leak_memory() -> None:
    model, x = mlp(), torch.randn(16, 24)
    call, runner = compiled(model, x)
    call(x)
    before = runner.counters
    gc.collect()
    tensors = sum(isinstance(o, torch.Tensor) for o in gc.get_objects())
    for _ in range(50):
        call(x)
    after = runner.counters
    assert after["allocations"] == before["allocations"]
    assert after["captures"] == before["captures"] == 1
    assert after["rebinds"] == 0
    gc.collect()
    assert sum(isinstance(o, torch.Tensor) for o in gc.get_objects()) <= tensors


# --- what breaks the contract ------------------------------------------------------------------


def test_a_replaced_parameter_is_bound_again() -> None:
    model, x = nn.Linear(24, 12), torch.randn(16, 24)
    call, runner = compiled(model, x)
    model.weight = nn.Parameter(torch.randn(12, 24))
    with pytest.warns(UserWarning, match=r"'weight'\] was replaced by another tensor"):
        torch.testing.assert_close(call(x), model(x))
    assert runner.counters["rebinds"] == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(call(x), model(x))


def test_a_moved_parameter_is_noticed_and_bound_again() -> None:
    model, x = nn.Linear(24, 12), torch.randn(16, 24)
    call, runner = compiled(model, x)
    model.weight.data = torch.randn(12, 24)
    with pytest.warns(UserWarning, match=r"'weight'\] was moved to other memory"):
        torch.testing.assert_close(call(x), model(x))
    assert runner.counters["captures"] == 1


def test_a_written_parameter_is_noticed_and_bound_again() -> None:
    model, x = nn.Linear(24, 12), torch.randn(16, 24)
    call, _ = compiled(model, x)
    model.load_state_dict(nn.Linear(24, 12).state_dict())
    with pytest.warns(UserWarning, match=r"was written to"):
        torch.testing.assert_close(call(x), model(x))


def test_of_many_moved_parameters_every_one_is_found_in_time() -> None:
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(12)))
    x = torch.randn(16, 8)
    call, _ = compiled(model, x)
    model[7].bias.data = torch.randn(8)
    with pytest.warns(UserWarning, match="was moved"):
        for _ in range(24):
            call(x)
    torch.testing.assert_close(call(x), model(x))


def test_refresh_reads_parameters_that_were_written_through_data() -> None:
    model, other, x = nn.Linear(24, 12), nn.Linear(24, 12), torch.randn(16, 24)
    call, runner = compiled(model, x)
    stale = call(x)
    model.weight.data.mul_(2)  # neither address nor version tells
    assert torch.equal(call(x), stale)
    assert gex.refresh(other) == 0
    assert gex.refresh(call) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.testing.assert_close(call(x), model(x))
    assert runner.counters["rebinds"] == 0


def test_buffers_keep_their_place_but_not_their_contents() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.ones(24))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * (self.scale + 1)

    model, x = Scaled(), torch.randn(4, 24)
    call, runner = compiled(model, x)
    assert len(input_lines(runner)) == 1
    model.scale.data.fill_(3)
    torch.testing.assert_close(call(x), x * 4)


def normed_conv(bias: bool, affine: bool, axes: int = 2) -> nn.Module:
    norm = (nn.BatchNorm1d if axes == 1 else nn.BatchNorm2d)(8, affine=affine)
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    if affine:
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    conv = (nn.Conv1d if axes == 1 else nn.Conv2d)(3, 8, 3, bias=bias)
    return nn.Sequential(conv, norm, nn.ReLU()).eval()


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_a_batch_norm_becomes_part_of_the_weights(bias: bool, affine: bool, axes: int) -> None:
    model, x = normed_conv(bias, affine, axes), torch.randn(2, 3, *[12] * axes)
    call, runner = compiled(model, x)
    assert runner.counters["pass.fold-batch-norm"] == 1
    assert runner.counters["folded_with_frozen"] > 0
    (steps,) = runner.steps
    assert [step["name"] for step in steps] == ["conv2d+add+relu"]
    torch.testing.assert_close(call(x), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm_in_f32", [False, True])
@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("bias", [False, True])
def test_a_batch_norm_of_bf16_becomes_part_of_the_weights(
    bias: bool, axes: int, norm_in_f32: bool
) -> None:
    torch.manual_seed(0)
    model = normed_conv(bias, True, axes).bfloat16()
    if norm_in_f32:  # as mixed-precision models keep it
        model[1].float()
    x = torch.randn(2, 3, *[12] * axes, dtype=torch.bfloat16)
    call, runner = compiled(model, x)
    assert runner.counters["pass.fold-batch-norm"] == 1
    exact = copy.deepcopy(model).double()(x.double())
    actual, expected = call(x), model(x)
    assert actual.dtype == expected.dtype
    ours, eager = ((y.double() - exact).pow(2).mean().sqrt() for y in (actual, expected))
    assert ours <= 1.5 * eager
    torch.testing.assert_close(actual, expected, rtol=0.05, atol=0.05)


def test_a_batch_norm_of_f16_stays() -> None:
    # Weights scaled by 1e-3 would lose digits below the smallest normal number.
    model, x = normed_conv(True, True), torch.randn(2, 3, 12, 12, dtype=torch.float16)
    model[1].running_var.fill_(1e6)
    model.half()
    model[1].float()
    call, runner = compiled(model, x)
    assert runner.counters.get("pass.fold-batch-norm", 0) == 0
    torch.testing.assert_close(call(x), model(x), rtol=2e-3, atol=2e-3)


def test_written_statistics_are_noticed_and_bound_again() -> None:
    model, x = normed_conv(True, True), torch.randn(2, 3, 12, 12)
    call, runner = compiled(model, x)
    model[1].running_mean.add_(2)
    with pytest.warns(UserWarning, match="running_mean"):
        actual = call(x)
    torch.testing.assert_close(actual, model(x), rtol=1e-5, atol=1e-5)
    assert runner.counters["rebinds"] == 1


def test_a_shared_statistic_is_not_taken_as_frozen() -> None:
    model, x = normed_conv(True, True), torch.randn(2, 3, 12, 12)

    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x) + self.body[1].running_mean.sum()

    shifted = Shifted().eval()
    call, runner = compiled(shifted, x)
    assert runner.counters.get("pass.fold-batch-norm", 0) == 0
    model[1].running_mean.data.add_(2)
    torch.testing.assert_close(call(x), shifted(x), rtol=1e-5, atol=1e-5)


def test_written_buffers_stay_inputs() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return x + self.count

    model, x = Counting(), torch.zeros(3)
    call, _ = compiled(model, x)
    assert torch.equal(call(x), torch.full((3,), 2.0))
    model.count = torch.zeros(3)
    assert torch.equal(call(x), torch.ones(3))


def test_training_never_takes_parameters_as_frozen() -> None:
    model, x = nn.Linear(24, 12), torch.randn(16, 24)
    with torch.enable_grad():
        call = torch.compile(model, backend="npugraph_ex", options=FROZEN)
        for _ in range(3):
            loss = call(x).square().sum()
            assert torch.allclose(loss, model(x).square().sum())
            loss.backward()
            with torch.no_grad():
                for p in model.parameters():
                    p.data.sub_(1e-3 * p.grad)
                    p.grad = None


def test_parameters_are_released_with_the_graph() -> None:
    model, x = nn.Linear(24, 12), torch.randn(16, 24)
    call, runner = compiled(model, x)
    weight = weakref.ref(model.weight)
    del model, call, runner
    torch._dynamo.reset()
    gc.collect()
    assert weight() is None


def test_check_frozen_names_the_parameter_that_changed() -> None:
    script = """
        import torch, gex
        torch.set_grad_enabled(False)
        model, x = torch.nn.Linear(24, 12), torch.randn(16, 24)
        call = torch.compile(model, backend="npugraph_ex", options={"frozen_parameter": True})
        call(x)
        call(x)
        model.weight.data.mul_(2)
        try:
            call(x)
        except gex.UserError as problem:
            assert "'weight'" in str(problem) and "gex.refresh" in str(problem), problem
            print("told")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=dict(os.environ, GEX_CHECK_FROZEN="1"),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.strip() == "told", done.stderr


def test_winograd_is_an_option() -> None:
    """Without it the same weights are packed for direct sums, which are nearer to f64."""
    torch.manual_seed(0)
    model, x = nn.Conv2d(64, 64, 3, padding=1).eval(), torch.randn(1, 64, 32, 32)
    errors, codes = [], []
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(x.double())
        for winograd in (True, False):
            compiled = gex.compile(model, (x,), options={"winograd": winograd})
            errors.append(float((compiled(x).double() - exact).abs().max()))
            text = compiled.report.runner.text("program")
            found = re.search(r'problem "conv2d (.*?)"', text)
            assert found is not None, text
            codes.append(found[1].split()[-3:])  # packed weights, Winograd, computed image
    assert codes == [["1", "1", "0"], ["1", "0", "0"]]
    assert errors[1] < errors[0] < 1e-4
