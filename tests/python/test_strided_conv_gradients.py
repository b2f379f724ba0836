"""Input gradients of convolutions whose step does not divide the kernel."""

from __future__ import annotations

import pytest
import torch
from torch import nn


@pytest.mark.parametrize(
    ("batch", "channels", "size", "kernel", "step", "padding"),
    [
        (4, (32, 64), 32, 3, 2, 1),
        (4, (32, 32), 17, 3, 2, 1),
        (2, (33, 40), 16, 5, 2, 2),
        (2, (32, 32), 20, 5, 3, 0),
        (2, (32, 32), 15, 3, 2, 0),
        (1, (8, 16), 19, 5, 3, 2),
    ],
)
def test_input_gradient_equals_eager(
    batch: int, channels: tuple[int, int], size: int, kernel: int, step: int, padding: int
) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    conv = nn.Conv2d(*channels, kernel, step, padding)
    expected = torch.randn(batch, channels[0], size, size, requires_grad=True)
    actual = expected.detach().clone().requires_grad_()
    conv(expected).square().sum().backward()
    torch.compile(conv, backend="npugraph_ex", fullgraph=True)(actual).square().sum().backward()
    torch.testing.assert_close(actual.grad, expected.grad, rtol=1e-4, atol=1e-4)
