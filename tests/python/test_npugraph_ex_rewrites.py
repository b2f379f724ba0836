"""What the reference's built-in passes do, by effect: kernels, copies, bytes, aliasing, values.

Calls that change nothing, and concatenations.
The engine's passes, fusion and emitter do it here; each option of npugraph_ex switches its part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from rewrite_runs import run

X = torch.linspace(-2, 2, 24).view(4, 6)


# --- calls that change nothing ----------------------------------------------------------------


def test_case_31_a_full_slice_is_not_a_node_unless_identities_are_kept(device: str) -> None:
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
def test_case_32_identities_are_removed_unless_kept(name: str, device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return IDENTITIES[name](x) + 1

    on, off = run(fn, X.to(device)), run(fn, X.to(device), remove_noop_ops=False)
    assert on.counters["operators"] == 1 and "kept" not in on.graph
    assert f'what = "{name}"' in off.graph


def test_case_32_rounding_integers_is_removed(device: str) -> None:
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


def test_case_34_values_that_are_only_overwritten_are_not_computed(device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x).copy_(x) + 1

    zeros = "full() {shape = [4, 6]}"
    assert zeros not in run(fn, X.to(device)).graph
    off = run(fn, X.to(device), remove_noop_ops=False)
    assert zeros in off.graph and 'what = "aten.copy.default"' in off.graph


# --- concatenations ---------------------------------------------------------------------------


def test_case_35_parts_are_written_into_the_result(device: str) -> None:
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


def test_many_cheap_parts_are_written_into_a_large_result(device: str) -> None:
    tables = torch.randn(6, 50, 128, device=device)
    ids = torch.randint(0, 50, (8, 6), device=device)

    def fn(tables: torch.Tensor, ids: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.cat([tables[k][ids[:, k]] for k in range(6)], 1) @ w

    ran = run(fn, tables, ids, torch.randn(768, 4, device=device))
    merged = device != "cpu"
    assert ran.counters.get("cat_parts_placed", 0) == (0 if merged else 6)


def test_a_sum_of_columns_is_no_concatenation_and_no_epilogue_of_short_rows(device: str) -> None:
    tables = torch.randn(20, 50, device=device)
    ids = torch.randint(0, 50, (64, 20), device=device)

    def fn(tables: torch.Tensor, ids: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> Any:
        wide = torch.cat([tables[k][ids[:, k : k + 1]] for k in range(20)], 1).sum(1, keepdim=True)
        return x @ w + wide

    ran = run(fn, tables, ids, torch.randn(64, 8, device=device), torch.randn(8, 1, device=device))
    assert "cat(" not in ran.graph and "reduce_sum" not in ran.graph
    products = [name for name in ran.launches if "matmul" in name]
    assert products
    if device == "cpu":
        assert not any("index" in name for name in products)


def test_products_are_placed_in_columns(device: str) -> None:
    a, b = torch.randn(5, 8, device=device), torch.randn(8, 3, device=device)
    ran = run(lambda a, b: torch.cat([a @ b, (a @ b).exp()], 1), a, b)
    assert not any("cat" in name for name in ran.launches)


def test_a_part_that_is_read_again_is_unchanged(device: str) -> None:
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
