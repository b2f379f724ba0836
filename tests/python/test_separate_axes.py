"""Resampling and maxima of windows run one axis after the other, with eager's numbers."""

from __future__ import annotations

import itertools
import pathlib
import platform
import sys
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

import gex
from processes import run

Function = Callable[[torch.Tensor], torch.Tensor]


class Call(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def steps(function: Function, x: torch.Tensor, near: float = 1e-5) -> int:
    """Compares with eager; how many nodes the pass replaced."""
    with gex.collect() as graphs:
        compiled = gex.compile(Call(function), (x,))
        got = compiled(x)
    want = function(x)
    torch.testing.assert_close(got, want, rtol=near, atol=near, equal_nan=True)
    return graphs[0].runner.counters.get("pass.separate-axes", 0)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(22, 26), (33, 7), (5, 40), (4, 5), (1, 13)])
def test_resampling(mode: str, align: bool, size: tuple[int, int]) -> None:
    x = torch.randn(2, 3, 11, 13)
    count = steps(lambda t: functional.interpolate(t, size=size, mode=mode, align_corners=align), x)
    # In the last case the last axis keeps its size.
    assert count == (0 if size[1] == 13 else 1)


def test_resampling_of_volumes() -> None:
    x = torch.randn(1, 2, 5, 7, 9)
    assert steps(lambda t: functional.interpolate(t, scale_factor=2.5, mode="trilinear"), x) == 1


def test_low_floats_are_rounded_once() -> None:
    x = torch.randn(1, 4, 6, 33).bfloat16()
    fine = functional.interpolate(x.float(), scale_factor=3, mode="bilinear").bfloat16()

    class Up(torch.nn.Module):
        def forward(self, t: torch.Tensor) -> torch.Tensor:
            return functional.interpolate(t, scale_factor=3, mode="bilinear")

    differ = gex.compile(Up(), (x,))(x) != fine  # where a tie was computed in another order
    assert differ.float().mean() < 0.01


def test_resampling_is_one_op_in_traces() -> None:
    """PyTorch's own kernels are back after a compile."""
    kernels = dict(torch.ops.aten.upsample_bilinear2d.vec.py_kernels)
    x = torch.randn(1, 2, 5, 6, requires_grad=True)

    def loss(t: torch.Tensor) -> torch.Tensor:
        return functional.interpolate(t, scale_factor=2.0, mode="bilinear").square().sum()

    loss(x).backward()
    want, x.grad = x.grad, None
    torch.compile(loss, backend="gex")(x).backward()
    torch.testing.assert_close(x.grad, want)
    assert torch.ops.aten.upsample_bilinear2d.vec.py_kernels == kernels


@pytest.mark.parametrize("mode", ["linear", "bilinear", "bicubic", "trilinear"])
@pytest.mark.parametrize("images", [2, 0])
def test_gradients_with_unknown_sizes(mode: str, images: int) -> None:
    axes = {"linear": 1, "trilinear": 3}.get(mode, 2)
    compare_gradients(mode, axes, images)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("images", [2, 0])
def test_gradients_of_copies_with_unknown_sizes(mode: str, axes: int, images: int) -> None:
    compare_gradients(mode, axes, images)


def compare_gradients(mode: str, axes: int, images: int) -> None:
    """PyTorch's rules of these gradients, and its checks of empty batches, take no symbols."""

    def up(x: torch.Tensor) -> torch.Tensor:
        return functional.interpolate(x, size=(7, 4, 5)[:axes], mode=mode)

    compiled = torch.compile(up, backend="gex", dynamic=True, fullgraph=True)
    for count in (3, images):
        x = torch.randn(count, 2, *(4, 6, 5)[:axes], requires_grad=True)
        want, got = up(x), compiled(x)
        weights = torch.randn_like(want)
        torch.testing.assert_close(got, want)
        torch.testing.assert_close(
            torch.autograd.grad(got, x, weights), torch.autograd.grad(want, x, weights)
        )


def test_unknown_sizes_are_resampled() -> None:
    class Up(torch.nn.Module):
        def forward(self, t: torch.Tensor) -> torch.Tensor:
            return functional.interpolate(t, scale_factor=2.0, mode="bilinear")

    width = torch.export.Dim("width", min=2, max=100)
    call = gex.compile(Up(), (torch.randn(1, 2, 8, 9),), dynamic_shapes={"t": {3: width}})
    for n in (2, 9, 31):
        x = torch.randn(1, 2, 8, n)
        torch.testing.assert_close(call(x), Up()(x))


POOLS = [
    (3, 2, 1, 1, False),
    (3, 2, 0, 1, True),
    (3, 2, 1, 1, True),
    (5, 1, 2, 1, False),
    (3, 2, 1, 2, False),
    ((4, 3), (1, 2), (2, 1), 1, False),
    (5, 3, 2, 1, True),
]


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("sides", [(17, 19), (16, 34), (7, 70)])
def test_maxima(pool: tuple, sides: tuple[int, int]) -> None:
    x = torch.randn(2, 3, *sides)
    x[0, 0, 3, 4] = float("nan")
    x[1, 2, 5, 0] = float("-inf")
    steps(lambda t: functional.max_pool2d(t, *pool[:4], ceil_mode=pool[4]), x, near=0)


def test_maxima_of_padded_windows_are_separate() -> None:
    x = torch.randn(2, 3, 16, 16)
    assert steps(lambda t: functional.max_pool2d(t, 3, 2, 1), x, near=0) == 1
    assert steps(lambda t: functional.max_pool2d(t, 5, 1, 2), x, near=0) == 1
    assert steps(lambda t: functional.max_pool3d(t, 3, 2, 1), x, near=0) == 1
    assert steps(lambda t: functional.max_pool2d(t, 2), x, near=0) == 0  # four reads are cheaper


@pytest.mark.parametrize("dtype", [torch.int32, torch.float64, torch.bfloat16])
def test_maxima_of_other_dtypes(dtype: torch.dtype) -> None:
    x = (torch.randn(1, 2, 21, 37) * 100).to(dtype)
    assert steps(lambda t: functional.max_pool2d(t, 3, 2, 1), x, near=0) == 1


@pytest.mark.skipif(platform.machine() != "x86_64", reason="levels of x86-64")
@pytest.mark.parametrize("level", ["v2", "v3", "v4"])
def test_each_level_of_the_processor(level: str, tmp_path: pathlib.Path) -> None:
    printed = run(sys.executable, "-c", PROGRAM, cwd=tmp_path, GEX_CPU=level)
    assert printed == "all agree\n"


PROGRAM = """
import itertools, torch, gex
from torch.nn import functional as F
torch.manual_seed(0)
class Both(torch.nn.Module):
    def forward(self, x):
        pooled = F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 5, 1, 2), F.max_pool2d(x, 3, 2)
        up = F.interpolate(x, scale_factor=1.7, mode="bilinear")
        down = F.interpolate(x, size=(3, 4), mode="bicubic")
        return *pooled, F.max_pool2d(x, 2), up, down
for h, w in itertools.product((5, 16, 35), (5, 8, 31, 65)):
    x = torch.randn(2, 3, h, w)
    for a, b in zip(gex.compile(Both(), (x,))(x), Both()(x)):
        torch.testing.assert_close(a, b, rtol=3e-5, atol=3e-5)
print("all agree")
"""


@pytest.mark.parametrize("training", [True, False])
def test_sums_of_one_pass(training: bool) -> None:
    """The gradient of a batch norm needs two sums over the same elements."""
    for sides in itertools.product((4, 7), (5, 33)):
        norm = torch.nn.BatchNorm2d(6).train(training)
        x = torch.randn(3, 6, *sides) * 3 + 5
        results = []
        for call in (norm, torch.compile(norm, backend="gex")):
            at = x.clone().requires_grad_()
            norm.zero_grad()
            (call(at) * torch.arange(sides[1])).sum().backward()
            assert at.grad is not None
            results.append([at.grad, norm.weight.grad.clone(), norm.bias.grad.clone()])
        torch.testing.assert_close(results[1], results[0], rtol=2e-4, atol=2e-4)


def test_means_of_one_pass() -> None:
    """Two means of one stage have accumulators of their own."""

    class Means(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            a, b = x.mean(-1, keepdim=True), (x * y).mean(-1, keepdim=True)
            return x - a - y * b, (x - y).amax(-1), x.sum(-1), (x * x).sum(-1)

    for rows, length in itertools.product((1, 5), (3, 16, 100, 3000)):
        x, y = torch.randn(rows, length), torch.randn(rows, length) + 2
        got = gex.compile(Means(), (x, y))(x, y)
        for a, b in zip(got, Means()(x, y), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
