"""What the reference's built-in passes do, by effect: kernels, copies, bytes, aliasing, values.

The engine's passes, fusion and emitter do it here; each option of npugraph_ex switches its part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import gex
from conftest import tensors
from gex.npu import ops, quant_ops

X = torch.linspace(-2, 2, 24).view(4, 6)


@dataclass
class Ran:
    """One compiled function after one call."""

    result: Any
    args: list[Any]
    report: gex.GraphReport

    @property
    def counters(self) -> dict[str, int]:
        return self.report.runner.counters

    @property
    def graph(self) -> str:
        return self.report.runner.text("graph")

    @property
    def program(self) -> str:
        return self.report.runner.text("program")

    @property
    def launches(self) -> list[str]:
        lines = self.program.splitlines()
        return [line.split('"')[1] for line in lines if line.startswith("  launch ")]

    def copies(self, why: str) -> tuple[int, int]:
        counters = self.counters
        return counters.get(f"copies.{why}", 0), counters.get(f"copied_bytes.{why}", 0)


def run(
    fn: Callable[..., Any],
    *args: torch.Tensor,
    tolerance: float = 1e-5,
    dynamic: bool | None = None,
    **options: Any,
) -> Ran:
    """Compiles, calls once and compares with eager: results, and arguments afterwards."""
    torch._dynamo.reset()
    mine, theirs = [a.clone() for a in args], [a.clone() for a in args]
    compiled = torch.compile(
        fn, backend="npugraph_ex", fullgraph=True, dynamic=dynamic, options=options
    )
    with gex.collect() as graphs:
        result = compiled(*mine)
    expected = fn(*theirs)
    for got, want in zip(tensors((result, mine)), tensors((expected, theirs)), strict=True):
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
    return Ran(result, mine, graphs[0])


# --- calls that change nothing ----------------------------------------------------------------


def test_case_31_a_full_slice_is_no_node_unless_identities_stay(device: str) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.slice(x, 0) + torch.ops.aten.slice(y, 0)

    x = X.to(device)
    on, off = run(fn, x, x), run(fn, x, x, remove_noop_ops=False)
    assert "slice" not in on.graph and on.counters["operators"] == 1
    assert off.graph.count('what = "aten.slice.Tensor"') == 2 and off.counters["operators"] == 3


IDENTITIES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "aten.slice_scatter.default": lambda x: torch.slice_scatter(x.neg(), x, 0),
    "aten.repeat.default": lambda x: x.repeat(1, 1),
    "aten.constant_pad_nd.default": lambda x: torch.constant_pad_nd(x, (0, 0)),
    "prims.convert_element_type.default": lambda x: torch.ops.prims.convert_element_type(
        x, x.dtype
    ),
    "aten.pow.Tensor_Scalar": lambda x: x.pow(1),
    "aten.cat.default": lambda x: torch.cat([x]),
    "aten.clone.default": lambda x: x.clone(),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_case_32_identities_are_gone_and_stay_if_asked_to(name: str, device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return IDENTITIES[name](x) + 1

    on, off = run(fn, X.to(device)), run(fn, X.to(device), remove_noop_ops=False)
    assert on.counters["operators"] == 1 and "kept" not in on.graph
    assert f'what = "{name}"' in off.graph


def test_case_32_rounding_integers_is_gone(device: str) -> None:
    i = torch.arange(5, device=device)
    on = run(lambda i: i.ceil() + 1, i)
    assert "ceil" not in on.graph
    assert (
        'what = "aten.ceil.default"' in run(lambda i: i.ceil() + 1, i, remove_noop_ops=False).graph
    )


def test_case_33_a_returned_clone_is_a_tensor_of_its_own(device: str) -> None:
    ran = run(lambda x: x.clone(), X.to(device))
    assert ran.result.data_ptr() != ran.args[0].data_ptr()
    assert len(ran.launches) == 1


def test_case_34_what_is_only_overwritten_is_never_made(device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x).copy_(x) + 1

    zeros = "full() {shape = [4, 6]}"
    assert zeros not in run(fn, X.to(device)).graph
    off = run(fn, X.to(device), remove_noop_ops=False)
    assert zeros in off.graph and 'what = "aten.copy.default"' in off.graph


# --- concatenations ---------------------------------------------------------------------------


def test_case_35_parts_are_written_where_they_end_up(device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.exp(), x.sin()], 0)

    for swapped in (False, True):
        order = (lambda x: torch.cat([x.sin(), x.exp()], 0)) if swapped else fn
        ran = run(order, X.to(device), dynamic=True)
        assert not any("cat" in name for name in ran.launches)
        assert ran.counters["cat_parts_placed"] == 2 and ran.copies("cat") == (0, 0)
        assert ran.counters["arena_bytes"] == 0


def test_case_35_a_part_that_comes_twice_is_computed_once_and_copied_once(device: str) -> None:
    ran = run(lambda x: torch.cat([x.exp(), x.exp()], 0), X.to(device))
    assert ran.launches == ["exp", "copy"]
    assert ran.copies("cat") == (1, X.numel() * 4)
    assert ran.counters["arena_bytes"] == 0


def test_case_35_three_different_producers(device: str) -> None:
    ran = run(lambda x: torch.cat([x.exp(), x.sin(), x.clone().add_(1)], 0), X.to(device))
    assert ran.counters["cat_parts_placed"] == 3 and ran.counters["arena_bytes"] == 0


def test_case_36_any_axis_and_sums_and_means(device: str) -> None:
    ran = run(lambda x: torch.cat([x.exp(), x.sin()], 1), X.to(device))
    assert ran.counters["cat_parts_placed"] == 2 and ran.counters["arena_bytes"] == 0
    ran = run(
        lambda x: torch.cat([x.sum(0, keepdim=True), x.mean(0, keepdim=True)], 0), X.to(device)
    )
    assert ran.counters["cat_parts_placed"] == 2
    assert not any("cat" in name for name in ran.launches)


def test_case_36_views_alone_are_one_kernel(device: str) -> None:
    ran = run(lambda x: torch.cat([x[1:], x[:2]], 0), X.to(device))
    assert ran.launches == ["cat"]


def test_case_36_a_part_of_two_concatenations_is_placed_in_one(device: str) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        e = x.exp()
        return torch.cat([e, x.sin()], 0), torch.cat([e, x.cos()], 0)

    ran = run(fn, X.to(device))
    assert ran.counters["cat_parts_placed"] == 3 and ran.copies("cat") == (
        1,
        X.numel() * 4,
    )


def test_inputs_among_the_parts_are_copied_once(device: str) -> None:
    ran = run(lambda x, y: torch.cat([y, x.exp()], 0), X.to(device), X.to(device))
    assert ran.copies("cat") == (1, X.numel() * 4)


def test_cheap_parts_are_computed_inside_one_kernel(device: str) -> None:
    ran = run(lambda x: torch.cat([x + 1, x * 2, x.exp(), x - 3], 0), X.to(device))
    assert len(ran.launches) == 2


def test_products_are_placed_in_columns(device: str) -> None:
    a, b = torch.randn(5, 8, device=device), torch.randn(8, 3, device=device)
    ran = run(lambda a, b: torch.cat([a @ b, (a @ b).exp()], 1), a, b)
    assert not any("cat" in name for name in ran.launches)


def test_a_part_that_is_read_again_is_what_it_was(device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        e = x.exp()
        c = torch.cat([e, x.sin()], 1)
        c = c.index_put((torch.tensor([0], device=device),), torch.tensor(0.5, device=device))
        return (c @ c.t()).sum(1, keepdim=True) * e

    ran = run(fn, X.to(device))
    assert ran.counters["cat_parts_placed"] == 2


def test_remove_cat_ops_off_makes_concatenations_kernels_of_their_own(device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x + 1, x.exp()], 0) * 2

    on, off = run(fn, X.to(device)), run(fn, X.to(device), remove_cat_ops=False)
    assert "cat" not in on.launches
    assert "cat" in off.launches and len(off.launches) > len(on.launches)
    assert off.counters["arena_bytes"] > on.counters["arena_bytes"]


# --- writing in place -------------------------------------------------------------------------


def test_case_38_an_intermediate_and_an_input_are_changed_without_copies(device: str) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a = x.clone()
        b = a.add(1)
        y.mul_(2)
        return b

    for noops in (True, False):
        ran = run(fn, X.to(device), X.to(device), remove_noop_ops=noops)
        assert ran.counters["arena_bytes"] == 0 and ran.copies("tie") == (0, 0)


def test_case_39_only_the_rows_written_change_and_nothing_is_copied(device: str) -> None:
    ran = run(lambda x: x[:2].add_(5).mul_(7), X.to(device))
    assert ran.copies("tie") == (0, 0) and ran.copies("scatter") == (0, 0)


def test_case_40_a_chain_of_mutations_leaves_no_copy(device: str) -> None:
    def fn(x: torch.Tensor) -> None:
        x.mul_(2)
        x.add_(1)

    assert run(fn, X.to(device)).copies("tie") == (0, 0)
    assert run(fn, X.to(device), input_inplace_pass=False).copies("tie") == (
        1,
        X.numel() * 4,
    )


def test_inplace_pass_off_writes_over_no_temporary(device: str) -> None:
    def fn(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        t = x @ x
        t[0] = v
        return t.sum(0)

    x, v = torch.randn(6, 6, device=device), torch.randn(6, device=device)
    assert run(fn, x, v).copies("scatter")[0] == 0
    assert run(fn, x, v, inplace_pass=False).copies("scatter")[0] == 1


@torch.library.custom_op("gex_test::put", mutates_args={"out"})
def put(x: torch.Tensor, out: torch.Tensor) -> None:
    out.add_(x)


@torch.library.custom_op("gex_test::put_all", mutates_args={"outs"})
def put_all(x: torch.Tensor, outs: list[torch.Tensor]) -> None:
    for out in outs:
        out.add_(x)


@torch.library.custom_op("gex_test::put_both", mutates_args={"a", "b"})
def put_both(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a.add_(x)
    b.mul_(2)
    return a + b


@put_both.register_fake
def _(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(a)


V = torch.tensor([1.0, 2.0, 3.0])


def test_case_41_what_is_read_afterwards_is_copied_and_counted(device: str) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        before = x + 1
        out = before.clone()
        put(x, out)
        return out, before * out

    ran = run(fn, V.to(device))
    assert ran.report.missed_in_place == (1, 12)
    assert "not in place: 1 tensors copied, 12 bytes" in ran.report.text()


def test_case_42_views_of_a_base_returned_used_before_and_after(device: str) -> None:
    def returned(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        put(x, out[:3])
        return out[:2]

    def used_before(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        y = out[:2] * 2
        put(x, out[:3])
        return y

    def used_after(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        put(x, out[:3])
        return out[:2] * 2

    for fn in (returned, used_before, used_after):
        assert run(fn, V.to(device), torch.arange(6.0, device=device)).report.missed_in_place == (
            0,
            0,
        )


def test_case_42_without_a_copy_back_the_input_is_left_alone(device: str) -> None:
    def drop_copy_back(gm: Any, example_inputs: Any, config: Any) -> None:
        (node,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
        node.replace_all_uses_with(node.args[1])
        gm.graph.erase_node(node)

    def fn(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        put(x, out)
        return out * 2

    options = {"post_grad_custom_pre_pass": drop_copy_back}
    out = torch.ones(3, device=device)
    with gex.collect() as graphs:
        result = torch.compile(fn, backend="npugraph_ex", options=options)(V.to(device), out)
    assert torch.equal(out, torch.ones(3, device=device)) and torch.equal(
        result, (V.to(device) + 1) * 2
    )
    assert graphs[0].missed_in_place == (1, 12)


def test_case_43_chains_several_and_lists_miss_nothing(device: str) -> None:
    def chain(x: torch.Tensor, out: torch.Tensor) -> None:
        put(x, out)
        put(x * 2, out)
        put(x * 3, out)

    def two(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return put_both(x, a, b)

    def views(x: torch.Tensor, out: torch.Tensor) -> None:
        put_all(x, [out[:3], out[3:]])

    assert run(chain, V.to(device), torch.ones(3, device=device)).report.missed_in_place == (0, 0)
    assert run(
        two, V.to(device), torch.ones(3, device=device), torch.ones(3, device=device)
    ).report.missed_in_place == (0, 0)
    assert run(views, V.to(device), torch.ones(6, device=device)).report.missed_in_place == (0, 0)


def test_case_44_intermediates_are_changed_in_place_and_can_be_read_later(device: str) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = x * 2, x * 3
        c = put_both(x, a, b)
        return c, a + 1

    assert run(fn, V.to(device)).report.missed_in_place == (0, 0)
    assert run(fn, V.to(device), inplace_pass=False).report.missed_in_place == (2, 24)


@torch.library.custom_op("gex_test::put_twice", mutates_args={"out"})
def put_twice(x: torch.Tensor, out: torch.Tensor) -> None:
    out.add_(x)
    out.add_(x)


def test_what_a_call_reads_as_well_is_not_changed_under_it(device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        a = x * 2
        put_twice(a.clone(), a)
        return a + 1

    assert run(fn, V.to(device)).report.missed_in_place == (1, 12)


def test_one_tensor_for_two_mutated_arguments_is_copied_once(device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        a = x * 2
        return put_both(x, a, a.clone())

    count, size = run(fn, V.to(device)).report.missed_in_place
    assert (count, size) in ((1, 12), (2, 24))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: (x.copy_(x), None)[1],
        lambda x: x.copy_(x),
        lambda x: x.copy_(x).copy_(x),
        lambda x: x.copy_(x) * 2 + 1,
    ],
)
def test_case_45_a_tensor_copied_onto_itself_is_no_copy(
    fn: Callable[..., Any], device: str
) -> None:
    ran = run(fn, X.to(device))
    assert ran.copies("tie") == (0, 0) and "copy" not in ran.launches


def test_case_46_a_scatter_into_a_view_of_an_input_works_in_place(device: str) -> None:
    def fn(cache: torch.Tensor, at: torch.Tensor, rows: torch.Tensor) -> None:
        view = cache.view(2, 8, 4)
        cache.copy_(quant_ops.scatter_update(view, at, rows, 1).view(16, 4))

    def extra_user(cache: torch.Tensor, at: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        view = cache.view(2, 8, 4)
        updated = quant_ops.scatter_update(view, at, rows, 1)
        later = updated.exp() * view
        cache.copy_(updated.view(16, 4))
        return later

    args = (
        torch.randn(16, 4, device=device),
        torch.tensor([1, 3], device=device),
        torch.randn(2, 2, 4, device=device),
    )
    ran = run(fn, *args)
    assert ran.copies("tie") == (0, 0) and ran.copies("scatter") == (0, 0)
    assert ran.copies("layout")[1] < args[0].numel() * 4  # never the cache, only the index
    aside = run(fn, *args, input_inplace_pass=False)
    assert aside.copies("tie") == (1, args[0].numel() * 4)
    kept = run(extra_user, *args)
    assert kept.copies("tie")[0] + kept.copies("scatter")[0] + kept.copies("layout")[0] > 0


# --- fused patterns ---------------------------------------------------------------------------

ROWS = torch.randn(4, 6, 64)
GAMMA, SMOOTH = torch.rand(64) + 0.5, torch.rand(64) + 0.5


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
