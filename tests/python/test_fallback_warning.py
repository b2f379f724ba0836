"""gex.FallbackWarning: a graph, or much of it, runs through PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.autograd import forward_ad
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import gex
from gex import npugraph_ex

Function = Callable[..., Any]


@pytest.fixture
def process_group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def warned(call: Function) -> list[str]:
    """The FallbackWarnings raised during a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in caught if issubclass(w.category, gex.FallbackWarning)]


def compiled(fn: Function, backend: str = "gex", **options: Any) -> Function:
    return torch.compile(fn, backend=backend, options=options or None)


def test_it_is_a_user_warning() -> None:
    assert issubclass(gex.FallbackWarning, UserWarning)


def test_a_graph_on_another_device_warns_once() -> None:
    fn = compiled(lambda x: x + 1)
    x = torch.ones(3, device="meta")
    (text,) = warned(lambda: fn(x))
    assert text.startswith("gex: graph_") and "gex.explain" in text
    assert "runs through PyTorch as a whole" in text and "device meta" in text
    assert warned(lambda: fn(x)) == []


def test_the_warning_names_the_line_of_the_call() -> None:
    fn = compiled(lambda x: x + 1)
    with pytest.warns(gex.FallbackWarning) as caught:
        fn(torch.ones(3, device="meta"))
    assert [w.filename for w in caught if w.category is gex.FallbackWarning] == [__file__]


def test_a_graph_that_is_compiled_again_warns_again() -> None:
    fn = compiled(lambda x: x + 1)
    assert len(warned(lambda: fn(torch.ones(3, device="meta")))) == 1
    assert len(warned(lambda: fn(torch.ones(3, 2, device="meta")))) == 1


@torch.no_grad()
def test_more_than_a_fifth_of_the_ops() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.svd(x)[1] + 1

    (text,) = warned(lambda: compiled(fn)(torch.randn(4, 4)))
    assert "1 of 2 ops run through PyTorch: aten._linalg_svd.default x1" in text


@torch.no_grad()
def test_a_fifth_of_the_ops_does_not_warn() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        s = torch.linalg.svd(x)[1]
        return (((s + 1) * 2).exp() / 3).sin()

    run = compiled(fn)
    assert warned(lambda: run(torch.randn(4, 4))) == []
    (graph,) = gex.explain(run).graphs
    assert len(graph.calls) == 1 and graph.native + graph.decomposed >= 4


def test_forward_and_backward_warn_each() -> None:
    x = torch.ones(4, device="meta", requires_grad=True)
    texts = warned(lambda: compiled(lambda x: x.sin())(x).sum().backward())
    names = [text.split()[1] for text in texts]
    assert len(names) == len(set(names)) == 2


@torch.no_grad()
def test_random_draws_are_not_fallbacks() -> None:
    assert warned(lambda: compiled(lambda x: torch.bernoulli(x))(torch.full((3,), 0.5))) == []


@torch.no_grad()
def test_debugging_aids_are_not_fallbacks(capfd: pytest.CaptureFixture[str]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        gex.ops.print(x, "x")
        return x + 1

    assert warned(lambda: compiled(fn)(torch.ones(2))) == []


@torch.no_grad()
def test_collectives_are_not_fallbacks(process_group: None) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(x)
        return x

    assert warned(lambda: compiled(fn)(torch.ones(2))) == []


@pytest.mark.parametrize(
    "backend, options", [("npugraphs", {}), ("npugraph_ex", {"force_eager": True})]
)
@torch.no_grad()
def test_requested_eager_graphs_are_not_fallbacks(backend: str, options: dict[str, Any]) -> None:
    assert warned(lambda: compiled(lambda x: x + 1, backend, **options)(torch.ones(2))) == []


def test_distributed_tensors_with_gradients(process_group: None) -> None:
    mesh = init_device_mesh("cpu", (1,))
    x = distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)])
    w = distribute_tensor(torch.randn(4, 4), mesh, [Replicate()]).requires_grad_()
    run = compiled(lambda x, w: torch.relu(x @ w).sum())
    texts = warned(lambda: run(x, w).to_local().backward())
    # Either they are compiled, or a warning says that they are not.
    graphs = gex.explain(run).graphs
    assert len(texts) == sum(graph.eager_reason is not None for graph in graphs)
    assert len(graphs) == 2


def test_forward_mode() -> None:
    def call() -> None:
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(torch.ones(2), torch.ones(2))
            compiled(lambda x: x * 2)(dual)

    (text,) = warned(call)
    assert "forward mode" in text


@torch.no_grad()
def test_exported_programs_warn_too() -> None:
    (text,) = warned(lambda: gex.compile(lambda x: torch.linalg.svd(x)[1], (torch.randn(3, 3),)))
    assert text.startswith("gex: export_") and "aten._linalg_svd.default" in text


def test_graphs_from_a_cache_warn_too(tmp_path: Path) -> None:
    def values(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.svd(x)[1]

    for _ in range(2):  # compiled, then loaded
        fn = npugraph_ex.inference.cache_compile(values, cache_dir=str(tmp_path))
        with gex.collect() as graphs:
            (text,) = warned(lambda fn=fn: fn(torch.eye(3)))  # type: ignore[misc]
        assert "aten._linalg_svd.default" in text
        assert [len(graph.calls) for graph in graphs] == [1]
    assert graphs[0].name.startswith("cached_")


def test_operators_that_end_a_graph() -> None:
    torch.library.define("gex_fallback_warning::opaque", "(Tensor x) -> Tensor")
    torch.library.impl("gex_fallback_warning::opaque", "CPU")(lambda x: x + 1)
    opaque = torch.ops.gex_fallback_warning.opaque
    with torch.no_grad():
        texts = warned(lambda: compiled(lambda x: opaque(x * 2) * 3)(torch.ones(2)))
    assert any("gex_fallback_warning.opaque" in text for text in texts)
