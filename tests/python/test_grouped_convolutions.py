"""Gradients of grouped convolutions: native in the row form, for any layout."""

import pytest
import torch

import gex

CASES = [  # channels, size, kernel, stride, groups
    (24, 14, 3, 1, 24),
    (24, 7, 3, 1, 24),
    (24, 15, 3, 2, 24),
    (24, 14, 5, 2, 24),
    (32, 9, 3, 2, 8),
    (32, 20, 3, 1, 4),
]


def gradients(grad, x, w, stride, padding, groups):
    return torch.ops.aten.convolution_backward(
        grad,
        x,
        w,
        [0],
        [stride] * 2,
        [padding] * 2,
        [1, 1],
        False,
        [0, 0],
        groups,
        [True, True, False],
    )[:2]


@pytest.mark.parametrize("channels, size, kernel, stride, groups", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_both_gradients_are_computed_without_calls(
    device, channels, size, kernel, stride, groups, dtype
):
    torch.manual_seed(0)
    x = torch.randn(3, channels, size, size, dtype=dtype, device=device)
    w = torch.randn(channels, channels // groups, kernel, kernel, dtype=dtype, device=device)
    y = torch.nn.functional.conv2d(x, w, None, stride, kernel // 2, 1, groups)
    grad = torch.randn_like(y)
    compiled = torch.compile(gradients, backend="gex", fullgraph=True, dynamic=False)
    arguments = (stride, kernel // 2, groups)
    for layout in (torch.contiguous_format, torch.channels_last):
        given = [t.contiguous(memory_format=layout) for t in (grad, x, w)]
        wide = [t.double() for t in (grad, x, w)]
        for got, want in zip(compiled(*given, *arguments), gradients(*wide, *arguments)):
            assert got.dtype == dtype
            error = (got.double() - want).abs().max() / want.abs().max()
            assert error < (1e-5 if dtype == torch.float32 else 1e-2)
        assert not gex.reports()[-1].calls


@pytest.mark.parametrize("groups", [1, 2])
def test_weights_that_are_not_finite_affect_only_their_taps(compile_with, groups):
    def transposed(x, w):
        return torch.nn.functional.conv_transpose2d(x, w, None, 2, 0, 1, groups)

    x, w = torch.randn(2, 4, 3, 4), torch.randn(4, 2, 3, 3)
    w[1, 0, 0, 2], w[3, 1, 1, 1] = float("nan"), float("inf")
    want = transposed(x, w)
    assert want.isfinite().any() and not want.isfinite().all()
    torch.testing.assert_close(compile_with(transposed)(x, w), want, equal_nan=True)
