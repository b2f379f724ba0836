"""Zeros that a program puts around the input of a convolution are the kernel's own padding."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import conv1d, conv2d, pad, relu

import gex

BORDERS = [(0, 1, 0, 1), (1, 2, 3, 0), (1, 1, 1, 1), (0, 0, 2, 2)]


def launches(fn, *arguments) -> tuple[int, torch.Tensor]:
    with gex.collect() as graphs:
        out = torch.compile(fn, backend="gex", fullgraph=True, dynamic=False)(*arguments)
    return graphs[0].runner.counters["launches"], out


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("groups", [1, 24])
@pytest.mark.parametrize("stride, padding", [(1, 0), (2, 0), (2, 1)])
def test_a_border_takes_no_launch(border, groups: int, stride: int, padding: int) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(2, 24, 15, 18), torch.randn(24, 24 // groups, 3, 3)

    def fn(x, w):
        return conv2d(pad(x, border), w, None, stride, padding, 1, groups)

    count, out = launches(fn, x, w)
    assert count == 1
    torch.testing.assert_close(out, fn(x, w), rtol=1e-4, atol=1e-4)


def test_one_axis() -> None:
    x, w = torch.randn(1, 8, 50), torch.randn(8, 8, 5)

    def fn(x, w):
        return conv1d(pad(x, (4, 0)), w)

    count, out = launches(fn, x, w)
    assert count == 1
    torch.testing.assert_close(out, fn(x, w), rtol=1e-4, atol=1e-4)


def test_two_convolutions_of_one_border_and_what_came_before() -> None:
    x, w = torch.randn(1, 8, 12, 12), torch.randn(8, 8, 3, 3)

    def fn(x, w):
        y = pad(relu(x), (0, 1, 0, 1))
        return conv2d(y, w), conv2d(y, w[:, :, :1, :1], None, 2)

    count, out = launches(fn, x, w)
    assert count <= 3
    torch.testing.assert_close(out, fn(x, w), rtol=1e-4, atol=1e-4)


def other_value(x, w):
    return conv2d(pad(x, (1, 1, 1, 1), value=0.5), w)


def cropped(x, w):
    return conv2d(pad(x, (-1, 1, 0, 1)), w)


def read_elsewhere(x, w):
    y = pad(x, (0, 1, 0, 1))
    return conv2d(y, w), y * 2


def also_a_result(x, w):
    y = pad(x, (0, 1, 0, 1))
    return y, conv2d(y, w)


def more_channels(x, w):
    return conv2d(pad(x, (0, 1, 0, 1, 2, 2)), w)


@pytest.mark.parametrize("fn", [other_value, cropped, read_elsewhere, also_a_result, more_channels])
def test_what_is_no_border_is_still_right(fn) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(2, 4, 9, 10), torch.randn(5, 8 if fn is more_channels else 4, 3, 3)
    torch.testing.assert_close(launches(fn, x, w)[1], fn(x, w), rtol=1e-4, atol=1e-4)


def test_gradients() -> None:
    def run(compiled: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        x, w = torch.randn(2, 6, 11, 9, requires_grad=True), torch.randn(6, 1, 3, 3)
        w.requires_grad_()

        def fn(x, w):
            return conv2d(pad(x, (0, 1, 1, 2)), w, None, 2, 0, 1, 6).square().sum()

        run = torch.compile(fn, backend="gex", fullgraph=True, dynamic=False) if compiled else fn
        run(x, w).backward()
        return [x.grad, w.grad]

    torch.testing.assert_close(run(True), run(False), rtol=1e-4, atol=1e-4)
