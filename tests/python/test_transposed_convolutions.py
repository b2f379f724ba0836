"""Transposed convolutions with frozen weights run as one kernel with what surrounds them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gex


def compiled(model: nn.Module, *args: torch.Tensor) -> tuple[torch.Tensor, dict[str, int]]:
    with gex.collect() as graphs:
        function = gex.compile(model, args)
        out = function(*args)
    return out, graphs[0].runner.counters


def check(model: nn.Module, x: torch.Tensor, tolerance: float = 2e-4) -> dict[str, int]:
    model = model.eval()
    with torch.no_grad():
        want = model(x)
        got, counters = compiled(model, x)
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
    return counters


@pytest.mark.parametrize(
    "size, step, border, more", [(4, 2, 1, 0), (3, 2, 1, 1), (5, 3, 0, 2), (2, 3, 0, 0)]
)
@pytest.mark.parametrize("side", [5, 19])
def test_images(size: int, step: int, border: int, more: int, side: int) -> None:
    torch.manual_seed(0)
    layer = nn.ConvTranspose2d(20, 24, size, step, border, more)
    counters = check(layer, torch.randn(2, 20, side, side + 2))
    assert counters["launches"] == 1
    assert counters["pass.select-transposed-convolutions"] == 1


def test_sequences() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.LeakyReLU(0.1), nn.ConvTranspose1d(24, 12, 16, 8, 4), nn.ReLU())
    assert check(net, torch.randn(1, 24, 61))["launches"] <= 2


def test_norms_and_activations_are_fused() -> None:
    torch.manual_seed(0)
    layers = [nn.ConvTranspose2d(130, 40, 4, 2, 1, bias=False), nn.BatchNorm2d(40), nn.ReLU()]
    layers += [
        nn.ConvTranspose2d(40, 3, 4, 2, 1),
        nn.Tanh(),
    ]  # few channels: convolutions of phases
    check(nn.Sequential(*layers), torch.randn(3, 130, 4, 4))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bit(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer = nn.ConvTranspose2d(40, 24, 4, 2, 1).to(dtype)
    x = torch.randn(1, 40, 9, 9).to(dtype)
    with torch.no_grad():
        got, _ = compiled(layer.eval(), x)
        want = layer.float()(x.float())
    torch.testing.assert_close(got.float(), want, rtol=1e-2, atol=1e-2)


def test_sizes_that_vary() -> None:
    torch.manual_seed(0)
    model = nn.ConvTranspose2d(16, 24, 4, 2, 1).eval()
    side = torch.export.Dim("side", min=2, max=64)
    function = gex.compile(model, (torch.randn(1, 16, 8, 8),), dynamic_shapes=({2: side},))
    for rows in (3, 8, 40):
        x = torch.randn(1, 16, rows, 8)
        with torch.no_grad():
            torch.testing.assert_close(function(x), model(x), rtol=2e-4, atol=2e-4)


def test_groups_and_dilations_have_other_kernels() -> None:
    torch.manual_seed(0)
    for layer in (
        nn.ConvTranspose2d(16, 16, 4, 2, 1, groups=2),
        nn.ConvTranspose2d(16, 16, 3, 2, 1, dilation=2),
        nn.ConvTranspose2d(16, 16, 3, 1, 1),
        nn.ConvTranspose3d(8, 8, 4, 2, 1),
    ):
        side = (1, 8, 4, 5, 6) if isinstance(layer, nn.ConvTranspose3d) else (1, 16, 7, 6)
        counters = check(layer, torch.randn(*side))
        assert "pass.select-transposed-convolutions" not in counters


class Product(nn.Module):
    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return nn.functional.conv_transpose2d(x, weight, stride=2, padding=1)


@pytest.mark.parametrize("size", [3, 4])
@pytest.mark.parametrize("channels, side, selected", [(16, 6, 1), (20, 23, 1), (140, 4, 0)])
def test_weights_that_change_are_packed_for_large_images(
    size: int, channels: int, side: int, selected: int
) -> None:
    torch.manual_seed(0)
    args = (torch.randn(3, channels, side, side + 1), torch.randn(channels, 40, size, size))
    with torch.no_grad():
        got, counters = compiled(Product(), *args)
    torch.testing.assert_close(got, Product()(*args), rtol=2e-4, atol=2e-4)
    assert counters.get("pass.select-transposed-convolutions", 0) == selected


def test_gradients_of_steps() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 24, 3, 2, 1), nn.ReLU(), nn.Conv2d(24, 40, 3, 2, 1))
    x = torch.randn(2, 3, 32, 36)
    net(x).square().sum().backward()
    want = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    torch.compile(net, backend="gex")(x).square().sum().backward()
    for p, gradient in zip(net.parameters(), want):
        torch.testing.assert_close(p.grad, gradient, rtol=2e-4, atol=2e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bit_convolutions_read_weights_packed_ahead_of_time(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 48, 3, padding=1), nn.ReLU()]
    layers += [nn.Conv2d(48, 24, 1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1, groups=24)]
    model = nn.Sequential(*layers).to(dtype).eval()
    x = torch.randn(1, 3, 33, 40).to(dtype)
    with torch.no_grad():
        got, counters = compiled(model, x)
        want = model.float()(x.float())
    assert counters["packed_bytes"] > 0
    torch.testing.assert_close(got.float(), want, rtol=3e-2, atol=1e-2)
