"""Greedy generation with a small random Qwen3, against eager."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import gex

transformers = pytest.importorskip("transformers")

LAYERS = 8


def make_model() -> torch.nn.Module:
    from tiny_qwen3 import tiny_qwen3

    config = tiny_qwen3(
        hidden_size=256, intermediate_size=512, num_hidden_layers=LAYERS, head_dim=64
    )
    return transformers.Qwen3ForCausalLM(config).eval()


def grow(
    forward: Callable[..., Any], ids: torch.Tensor, steps: int
) -> tuple[list[int], list[torch.Tensor], list[float]]:
    """Tokens, logits and seconds of each step over a growing sequence."""
    tokens, logits, seconds = [], [], []
    for _ in range(steps):
        start = time.perf_counter()
        last = forward(input_ids=ids, use_cache=False).logits[:, -1]
        seconds.append(time.perf_counter() - start)
        logits.append(last.clone())
        token = last.argmax(-1, keepdim=True)
        tokens.append(int(token))
        ids = torch.cat([ids, token], dim=1)
    return tokens, logits, seconds


@pytest.mark.alone
@torch.no_grad()
def test_growing_sequence_has_eagers_tokens_in_one_compile() -> None:
    model = make_model()
    compiled = torch.compile(
        model, backend="npugraph_ex", fullgraph=True, dynamic=True, options={"capture_limit": 256}
    )
    prompt = torch.randint(0, 512, (1, 7))
    want_tokens, want_logits, _ = grow(model, prompt, 32)
    with gex.collect() as graphs:
        tokens, logits, seconds = grow(compiled, prompt, 32)
    assert tokens == want_tokens
    assert len(set(tokens)) >= 20
    for got, want in zip(logits, want_logits):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)
    assert len(graphs) == 1
    counters = graphs[0].runner.counters
    assert counters["captures"] <= 32
    assert counters["evictions"] == 0
    # A pause would be a compile; even one kernel takes longer than a whole step does.
    assert max(seconds[1:]) < 0.1 * seconds[0]


@pytest.mark.parametrize("dynamic", [False, True])
@torch.no_grad()
def test_regions_give_eagers_logits_at_every_length(dynamic: bool) -> None:
    model = make_model()
    prompt = torch.randint(0, 512, (1, 7))
    steps = 16 if dynamic else 1
    want_tokens, want_logits, _ = grow(model, prompt, steps)
    with gex.regions(model) as found, gex.collect() as graphs:
        compiled = torch.compile(model, backend="gex", fullgraph=True, dynamic=dynamic)
        tokens, logits, _ = grow(compiled, prompt, steps)
    assert len(found.blocks) == 0 and found.reasons == {}  # undone, and not for want of likeness
    assert tokens == want_tokens
    for got, want in zip(logits, want_logits):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)
    (graph,) = graphs
    assert list(graph.regions.values()) == [LAYERS]
    assert graph.native_share == 1.0


def decode(
    model: torch.nn.Module, forward: Callable[..., Any], prompt: torch.Tensor, steps: int
) -> tuple[list[int], list[torch.Tensor], Any]:
    cache = transformers.StaticCache(config=model.config, max_cache_len=64)
    length = prompt.shape[1]
    positions = torch.arange(length)
    out = model(
        input_ids=prompt,
        past_key_values=cache,
        cache_position=positions,
        position_ids=positions[None],
    )
    token = out.logits[:, -1].argmax(-1, keepdim=True)
    tokens, logits = [int(token)], []
    for step in range(steps):
        position = torch.tensor([length + step])
        last = forward(
            input_ids=token,
            past_key_values=cache,
            cache_position=position,
            position_ids=position[None],
        ).logits[:, -1]
        logits.append(last.clone())
        token = last.argmax(-1, keepdim=True)
        tokens.append(int(token))
    return tokens, logits, cache


@torch.no_grad()
def test_static_cache_is_updated_in_place() -> None:
    model = make_model()
    compiled = torch.compile(model, backend="npugraph_ex", fullgraph=True, dynamic=False)
    prompt = torch.randint(0, 512, (1, 7))
    want_tokens, want_logits, want_cache = decode(model, model, prompt, 30)
    with gex.collect() as graphs:
        tokens, logits, cache = decode(model, compiled, prompt, 30)
    assert tokens == want_tokens
    assert len(set(tokens)) >= 20
    for got, want in zip(logits, want_logits):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)
    for got, want in zip(cache.layers, want_cache.layers):
        torch.testing.assert_close(got.keys, want.keys, rtol=1e-3, atol=1e-3)
    (graph,) = graphs
    counters = graph.runner.counters
    assert counters["captures"] == 1
    assert counters["replays"] == 29
    # Ties may copy each layer's step counter, 8 bytes; a layer's keys alone are 32 KiB.
    assert counters.get("copied_bytes.tie", 0) <= 8 * LAYERS
    assert counters.get("copies.scatter", 0) == 0
    assert counters["bytes_copied"] == 0
