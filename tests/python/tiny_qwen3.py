"""A Qwen3 configuration small enough for tests, whose tokens differ."""

from __future__ import annotations

from typing import Any

from transformers import Qwen3Config


def tiny_qwen3(**changes: Any) -> Qwen3Config:
    sizes = dict(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        initializer_range=0.1,
    )
    return Qwen3Config(**(sizes | changes))
