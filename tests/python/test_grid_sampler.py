"""grid_sampler_2d on 16-bit floats: native, with a rounding at each step as in eager."""

import pytest
import torch

import gex


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
