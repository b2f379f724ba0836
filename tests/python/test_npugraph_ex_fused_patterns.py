"""What the reference's built-in passes do, by effect: kernels, copies, bytes, aliasing, values.

Patterns that are one kernel.
The engine's passes, fusion and emitter do it here; each option of npugraph_ex switches its part.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from gex.npu import ops, quant_ops
from rewrite_runs import run

# The same numbers each time: one in many thousands lies where a quantised value may round to
# either side.
_generator = torch.Generator().manual_seed(0)
ROWS = torch.randn(4, 6, 64, generator=_generator)
GAMMA, SMOOTH = (torch.rand(64, generator=_generator) + 0.5 for _ in range(2))


def add_norm_quant(
    a: torch.Tensor, b: torch.Tensor, gamma: torch.Tensor, smooth: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    y, _, total = ops.npu_add_rms_norm(a, b, gamma)
    return (*quant_ops.npu_dynamic_quant(y, smooth_scales=smooth), total)


def test_case_47_norm_and_dynamic_quantisation_are_one_kernel(device: str) -> None:
    parts = run(
        add_norm_quant,
        ROWS.to(device),
        ROWS.to(device).flip(0),
        GAMMA.to(device),
        SMOOTH.to(device),
    )
    assert parts.counters["launches"] == 1

    def fused(a: torch.Tensor, b: torch.Tensor, gamma: torch.Tensor, smooth: torch.Tensor) -> Any:
        q, none, total, scale, also_none = quant_ops.npu_add_rms_norm_dynamic_quant(
            a, b, gamma, smooth_scale1=smooth, output_mask=[True, False]
        )
        assert none is None and also_none is None
        return q, scale, total

    whole = run(
        fused, ROWS.to(device), ROWS.to(device).flip(0), GAMMA.to(device), SMOOTH.to(device)
    )
    for one, other in zip(parts.result, whole.result):
        assert torch.equal(one, other)


def test_case_47_the_forms_with_views_and_casts(device: str) -> None:
    def flattened(a: torch.Tensor, b: torch.Tensor, gamma: torch.Tensor) -> Any:
        y, _, total = ops.npu_add_rms_norm(a, b, gamma)
        q, scale = quant_ops.npu_dynamic_quant(y.flatten(0, 1))
        return q, scale.view(-1, 1), total

    def cast(a: torch.Tensor, b: torch.Tensor, gamma: torch.Tensor) -> Any:
        y, _, total = ops.npu_add_rms_norm(a, b, gamma)
        return y.view(-1, 64).to(torch.float32), y, total

    assert (
        run(flattened, ROWS.to(device), ROWS.to(device).flip(0), GAMMA.to(device)).counters[
            "launches"
        ]
        <= 2
    )
    half = [t.half() for t in (ROWS.to(device), ROWS.to(device).flip(0), GAMMA.to(device))]
    assert run(cast, *half).counters["launches"] == 1


def test_case_47_all_forms_in_one_model(device: str) -> None:
    def model(a: torch.Tensor, b: torch.Tensor, gamma: torch.Tensor, smooth: torch.Tensor) -> Any:
        q, scale, h = add_norm_quant(a, b, gamma, smooth)
        y, _, h = ops.npu_add_rms_norm(h, b, gamma)
        q2, scale2 = quant_ops.npu_dynamic_quant(y.flatten(0, 1))
        y, _, h = ops.npu_add_rms_norm(h, a, gamma)
        return q, scale, q2, scale2.view(-1, 1), y.view(-1, 64).to(torch.float32), h

    args = ROWS.to(device), ROWS.to(device).flip(0), GAMMA.to(device), SMOOTH.to(device)
    on, off = (run(model, *args, pattern_fusion_pass=wanted) for wanted in (True, False))
    assert on.counters["launches"] <= off.counters["launches"] <= 5
    for one, other in zip(on.result, off.result):
        assert torch.equal(one, other)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("out", [torch.int8, torch.qint8])
@pytest.mark.parametrize("with_sum", [True, False])
def test_case_48_norm_and_quantisation_are_one_kernel_bit_for_bit(
    dtype: torch.dtype, out: torch.dtype, with_sum: bool, device: str
) -> None:
    def fn(a: torch.Tensor, b: torch.Tensor, gamma: torch.Tensor, scales: torch.Tensor) -> Any:
        y, _, total = ops.npu_add_rms_norm(a, b, gamma, 1e-5)
        q = quant_ops.npu_quantize(y, scales, None, out, -1, True)
        return (q, total) if with_sum else q

    args = [
        t.to(dtype)
        for t in (ROWS.to(device), ROWS.to(device).flip(0), GAMMA.to(device), SMOOTH.to(device))
    ]
    ran = run(fn, *args, tolerance=0)
    assert ran.counters["launches"] == 1


@pytest.mark.parametrize(
    ("zero_point", "out", "div_mode"),
    [
        (torch.int8, torch.int8, True),
        (torch.uint8, torch.int8, True),
        (torch.float32, torch.int32, True),
        (None, torch.int8, False),
    ],
)
def test_case_48_forms_that_the_reference_leaves_apart_are_right_too(
    zero_point: torch.dtype | None, out: torch.dtype, div_mode: bool, device: str
) -> None:
    zero = None if zero_point is None else torch.ones(3, device=device).to(zero_point)

    def fn(a: torch.Tensor, gamma: torch.Tensor, scales: torch.Tensor) -> Any:
        y, _, total = ops.npu_add_rms_norm(a, a, gamma)
        return quant_ops.npu_quantize(y, scales, zero, out, -1, div_mode), y, total

    a, gamma, scales = (
        torch.randn(5, 3, device=device).half(),
        torch.rand(3, device=device).half(),
        (torch.rand(3, device=device) + 0.5).half(),
    )
    run(fn, a, gamma, scales, tolerance=0)


@pytest.mark.parametrize(
    ("k", "axes", "one_kernel"),
    [
        (512, (1, 0), True),
        (511, (0, 1), True),  # apart in the reference: no multiple of 128
        (64, (-3, -2), True),
        (64, (0, 2), True),
        (64, (-1, -2), True),  # another transposition, which is a layout of the result as well
    ],
)
def test_case_49_a_transposed_batch_of_products_is_written_so(
    k: int, axes: tuple[int, int], one_kernel: bool, device: str
) -> None:
    a, b = torch.randn(64, 4, k, device=device) * 0.1, torch.randn(64, k, 128, device=device) * 0.1
    ran = run(lambda a, b: torch.bmm(a, b).transpose(*axes), a, b, tolerance=1e-4)
    assert (ran.counters["launches"] == 1) == one_kernel
    off = run(
        lambda a, b: torch.bmm(a, b).transpose(*axes),
        a,
        b,
        tolerance=1e-4,
        pattern_fusion_pass=False,
    )
    assert torch.equal(off.result, ran.result)


@pytest.mark.parametrize("k", [128, 1152])  # 64 * 1152 = 73728: apart in the reference
def test_case_49_the_form_with_a_transposed_operand(k: int, device: str) -> None:
    a, b = torch.randn(4, 64, k, device=device) * 0.1, torch.randn(64, k, 32, device=device) * 0.1

    def parts(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.bmm(a.transpose(0, 1), b).transpose(0, 1)

    def fused(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return quant_ops.npu_transpose_batchmatmul(a, b, perm_x1=[1, 0, 2])

    one, other = (run(fn, a, b, tolerance=1e-4) for fn in (parts, fused))
    assert one.counters["launches"] == other.counters["launches"] == 1
    assert torch.equal(one.result, other.result)


def test_pattern_fusion_pass_off_recognises_nothing(device: str) -> None:
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ k.transpose(-1, -2) / 4.0, -1) @ v

    q, k, v = (torch.randn(2, 3, 5, 16, device=device) for _ in range(3))
    on, off = run(attention, q, k, v), run(attention, q, k, v, pattern_fusion_pass=False)
    assert "attention(" in on.graph and "attention(" not in off.graph
    assert on.counters["launches"] < off.counters["launches"]
