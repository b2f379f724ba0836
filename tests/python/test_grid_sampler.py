"""grid_sampler_2d on 16-bit floats: native, with a rounding at each step as in eager."""

import pytest
import torch

import gex
from gex.importer import grid_sampler


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("padding", [0, 1, 2], ids=["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", [0, 1, 2], ids=["bilinear", "nearest", "bicubic"])
def test_every_bit_is_that_of_eager(device, dtype, mode, padding):
    torch.manual_seed(0)
    compiled = torch.compile(torch.grid_sampler_2d, backend="gex", fullgraph=True, dynamic=False)
    cases = [((13, 17), False)]
    if dtype == torch.bfloat16:
        cases += [((13, 17), True), ((1, 5), True)]
    for size, align_corners in cases:
        image = torch.randn(2, 3, *size, device=device).to(dtype)
        grid = (torch.rand(2, 9, 21, 2, device=device) * 5 - 2.5).to(dtype)
        arguments = (image, grid, mode, padding, align_corners)
        assert torch.equal(compiled(*arguments), torch.grid_sampler_2d(*arguments))
        assert not gex.reports()[-1].calls


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mode", [0, 1, 2], ids=["bilinear", "nearest", "bicubic"])
def test_gradients_of_the_grid_are_those_of_eager_and_of_the_image_within_its_rounding(
    device, dtype, mode
):
    torch.manual_seed(0)
    backward = torch.ops.aten.grid_sampler_2d_backward
    compiled = torch.compile(backward, backend="gex", fullgraph=True, dynamic=False)
    for padding, align_corners in ((2, False), (1, True), (0, False))[: 1 if mode == 2 else 3]:
        image = torch.randn(2, 1, 13, 17, device=device).to(dtype)
        grid = (torch.rand(2, 9, 21, 2, device=device) * 5 - 2.5).to(dtype)
        grad = torch.randn(2, 1, 9, 21, device=device).to(dtype)
        arguments = (grad, image, grid, mode, padding, align_corners, [True, True])
        of_image, of_grid = compiled(*arguments)
        want_of_image, want_of_grid = backward(*arguments)
        assert not gex.reports()[-1].calls
        assert torch.equal(of_grid, want_of_grid)
        assert of_image.dtype == dtype
        # Eager rounds after each of up to some dozens of additions to a pixel.
        error = (of_image.double() - want_of_image.double()).abs().max()
        assert error <= 8 * torch.finfo(dtype).eps * want_of_image.double().abs().max()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mode", [0, 1, 2], ids=["bilinear", "nearest", "bicubic"])
def test_where_eager_computes_in_f32_results_are_rounded_once(monkeypatch, dtype, mode):
    """As on CUDA, whose eager mode differs from the CPU's."""
    monkeypatch.setattr(grid_sampler, "_computes_in_f32", lambda image: True)
    torch.manual_seed(0)
    image = torch.randn(2, 3, 13, 17).to(dtype)
    grid = (torch.rand(2, 9, 21, 2) * 2.4 - 1.2).to(dtype)
    grad = torch.randn(2, 3, 9, 21).to(dtype)
    rest = (mode, 1, False)
    want = torch.grid_sampler_2d(image.float(), grid.float(), *rest)
    got = grid_sampler.grid_sampler_2d(image, grid, *rest)
    assert got.dtype == dtype
    torch.testing.assert_close(got, want.to(dtype), rtol=torch.finfo(dtype).eps, atol=1e-6)
    wide = torch.ops.aten.grid_sampler_2d_backward(
        grad.float(), image.float(), grid.float(), *rest, [True, True]
    )
    narrow = grid_sampler.grid_sampler_2d_backward(grad, image, grid, *rest, [True, True])
    for value, reference in zip(narrow, wide):
        assert value is not None and value.dtype == dtype
        torch.testing.assert_close(
            value, reference.to(dtype), rtol=4 * torch.finfo(dtype).eps, atol=1e-3
        )
