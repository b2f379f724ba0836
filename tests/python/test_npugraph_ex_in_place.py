"""What the reference's built-in passes do, by effect: kernels, copies, bytes, aliasing, values.

Writing in place, and calls that change their operands.
The engine's passes, fusion and emitter do it here; each option of npugraph_ex switches its part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import gex
from gex.npu import quant_ops
from rewrite_runs import run

X = torch.linspace(-2, 2, 24).view(4, 6)


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


def test_case_41_tensors_read_afterwards_are_copied_and_counted(device: str) -> None:
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


def test_a_tensor_that_a_call_also_reads_is_copied(device: str) -> None:
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
def test_case_45_a_tensor_copied_onto_itself_is_not_copied(
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
