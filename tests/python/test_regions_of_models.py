"""Regions of models of transformers: KV caches, and regions that nobody asked for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import gex
from conftest import assert_same, last_report
from gex.compat.dynamo_regions import REUSES_TRACES
from gex.nested_regions.automatic import MANY

transformers = pytest.importorskip("transformers")

WIDTH = 16


def qwen(layers: int) -> Any:
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=61,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        max_position_embeddings=64,
        attn_implementation="eager",
        initializer_range=0.3,
    )
    return transformers.Qwen3ForCausalLM(config).eval()


def tensors_of(cache: Any) -> list[torch.Tensor]:
    return [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]


def ids_of(length: int) -> torch.Tensor:
    return torch.arange(length).remainder(61).view(1, length)


@torch.no_grad()
def test_a_growing_cache() -> None:
    model = qwen(3)
    compiled = torch.compile(model, backend="gex", fullgraph=True, dynamic=True)
    with gex.regions(model) as found:
        got, want = compiled(ids_of(5)), model(ids_of(5))
        assert_same(got.logits, want.logits, 1e-4)
        assert_same(tensors_of(got.past_key_values), tensors_of(want.past_key_values), 1e-4)
        assert list(last_report().regions.values()) == [3]
        caches = got.past_key_values, want.past_key_values
        for token in (7, 8, 9):
            ids = torch.tensor([[token]])
            got = compiled(ids, past_key_values=caches[0])
            want = model(ids, past_key_values=caches[1])
            assert_same(got.logits, want.logits, 1e-4)
            assert_same(tensors_of(caches[0]), tensors_of(caches[1]), 1e-4)
        assert sum(last_report().regions.values()) == 3
        assert len(last_report().regions) == 1 or not REUSES_TRACES
    assert found.reasons == {}
    assert vars(caches[0].layers[1]).keys() == vars(caches[1].layers[1]).keys()
    assert caches[0].get_seq_length() == 8


@torch.no_grad()
def test_a_static_cache() -> None:
    model = qwen(3)
    compiled = torch.compile(model, backend="gex", fullgraph=True)
    caches = [transformers.StaticCache(config=model.config, max_cache_len=16) for _ in range(2)]
    for cache in caches:
        model(ids_of(5), past_key_values=cache)
    addresses = [tensor.data_ptr() for tensor in tensors_of(caches[0])]
    with gex.regions(model) as found, gex.collect() as graphs:
        for token in (7, 8, 9):
            ids = torch.tensor([[token]])
            got = compiled(ids, past_key_values=caches[0]).logits
            assert_same(got, model(ids, past_key_values=caches[1]).logits, 1e-4)
    assert found.reasons == {}
    assert [list(graph.regions.values()) for graph in graphs] == [[3]]
    assert_same(tensors_of(caches[0]), tensors_of(caches[1]), 1e-4)
    assert int(caches[0].get_seq_length()) == int(caches[1].get_seq_length()) == 8
    assert [tensor.data_ptr() for tensor in tensors_of(caches[0])] == addresses


@torch.no_grad()
def test_a_cache_of_another_class_is_left_alone() -> None:
    class Doubles(transformers.DynamicCache):
        def update(self, keys: Any, values: Any, *args: Any, **kwargs: Any) -> Any:
            return super().update(keys * 2, values, *args, **kwargs)

    model = qwen(2)
    with gex.regions(model) as found:
        compiled = torch.compile(model, backend="gex", fullgraph=True)
        got = compiled(ids_of(5), past_key_values=Doubles(config=model.config))
    want = model(ids_of(5), past_key_values=Doubles(config=model.config))
    assert_same(got.logits, want.logits, 1e-4)
    assert list(found.reasons) == ["Qwen3DecoderLayer"] or not REUSES_TRACES


class Indexed(nn.Module):
    """Computes with its index: calls of its blocks differ."""

    def __init__(self, layer_idx: int) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.layer_idx = layer_idx

    def forward(self, x: torch.Tensor, past_key_values: Any = None) -> torch.Tensor:
        keys = self.linear(x).view(1, 1, -1, WIDTH)
        keys, _ = past_key_values.update(keys, keys, self.layer_idx)
        return x + keys.sum() * self.layer_idx


class IndexedNet(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Indexed(i) for i in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        cache = transformers.DynamicCache()
        for layer in self.layers:
            x = layer(x, past_key_values=cache)
        return x


@torch.no_grad()
def test_a_block_that_computes_with_its_index_is_no_region() -> None:
    model, x = IndexedNet(3), torch.randn(4, WIDTH)
    with gex.regions(model) as found:
        assert_same(torch.compile(model, backend="gex", fullgraph=True)(x), model(x))
    assert list(found.reasons) == ["Indexed"]


# --- automatic regions -----------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)) + x


class Net(nn.Module):
    def __init__(self, layers: int = MANY) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def counts_of(compiled: Any, x: torch.Tensor, want: torch.Tensor) -> list[int]:
    with gex.collect() as graphs:
        assert_same(compiled(x), want)
        assert_same(compiled(x), want)
    (graph,) = graphs
    return list(graph.regions.values())


@pytest.mark.parametrize("backend", ["gex", "npugraph_ex"])
@torch.no_grad()
def test_many_blocks_are_traced_once_automatically(backend: str) -> None:
    model, x = Net(), torch.randn(3, WIDTH)
    assert counts_of(torch.compile(model, backend=backend), x, model(x)) == [MANY]
    assert all("forward" not in vars(layer) for layer in model.layers)


@pytest.mark.parametrize("options", [{}, {"post_grad_custom_pre_pass": lambda *_: None}])
@torch.no_grad()
def test_each_call_of_a_region_names_its_own_layer(options: dict[str, Any]) -> None:
    """Also where the region is written out, for passes of the user."""
    model, x = Net(), torch.randn(3, WIDTH)
    backend = "npugraph_ex" if options else "gex"
    compiled = torch.compile(model, backend=backend, options=options)
    with gex.collect() as graphs:
        assert_same(compiled(x), model(x))
    (graph,) = graphs
    assert graph.runner is not None
    text = graph.runner.text("graph")
    for layer in range(MANY):
        assert f" of layers.{layer}" in text, f"layer {layer}"


@torch.no_grad()
def test_a_model_that_a_function_closes_over() -> None:
    model, x = Net(), torch.randn(3, WIDTH)
    assert counts_of(torch.compile(lambda x: model(x) * 2, backend="gex"), x, model(x) * 2) == [
        MANY
    ]


@torch.no_grad()
def test_few_blocks_are_not() -> None:
    model, x = Net(MANY - 1), torch.randn(3, WIDTH)
    assert counts_of(torch.compile(model, backend="gex"), x, model(x)) == []


@pytest.mark.parametrize("backend", ["gex", "npugraph_ex"])
@torch.no_grad()
def test_the_option_turns_it_off(backend: str) -> None:
    model, x = Net(), torch.randn(3, WIDTH)
    compiled = torch.compile(model, backend=backend, options={"regions": False})
    assert counts_of(compiled, x, model(x)) == []


def test_training_has_none() -> None:
    model, x = Net(), torch.randn(3, WIDTH)
    with gex.collect() as graphs:
        torch.compile(model, backend="gex")(x).sum().backward()
    assert len(graphs) == 2
    assert not any(graph.regions for graph in graphs)


@torch.no_grad()
def test_passes_of_the_user_see_the_whole_graph() -> None:
    model, x = Net(), torch.randn(3, WIDTH)
    relus = []

    def look(gm: torch.fx.GraphModule, _: Any, __: Any) -> None:
        found = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.relu.default)
        relus.append(len(found))

    options = {"post_grad_custom_pre_pass": look}
    compiled = torch.compile(model, backend="npugraph_ex", options=options)
    assert counts_of(compiled, x, model(x)) == []
    assert relus == [MANY]


@torch.no_grad()
def test_the_one_line_of_a_deep_model() -> None:
    model = qwen(MANY)
    options = {"capture_limit": 16}
    compiled = torch.compile(
        model, backend="npugraph_ex", fullgraph=True, dynamic=True, options=options
    )
    with gex.collect() as graphs:
        for length in (4, 5, 6):
            assert_same(compiled(ids_of(length)).logits, model(ids_of(length)).logits, 1e-4)
    assert [list(graph.regions.values()) for graph in graphs] == [[MANY]]
