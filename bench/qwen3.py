"""Configurations of Qwen3 that the measurements share."""

from __future__ import annotations

from typing import Any

from transformers import Qwen3Config

_SMALL = dict(
    vocab_size=4096,
    hidden_size=256,
    intermediate_size=768,
    num_hidden_layers=8,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=64,
    max_position_embeddings=4096,
)
_FULL = dict(
    vocab_size=151936,
    hidden_size=1024,
    intermediate_size=3072,
    num_hidden_layers=28,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=4096,
)


def small(**changes: Any) -> Qwen3Config:
    return Qwen3Config(**(_SMALL | changes))


def full(**changes: Any) -> Qwen3Config:
    """Of Qwen3-0.6B."""
    return Qwen3Config(**(_FULL | changes))
