"""The fused layer that nn.TransformerEncoderLayer calls in inference, as plain operations.

PyTorch has no decomposition of it; its kernel is a sequence of the operations below.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

_KEYS_OF_EACH_BATCH = 1  # the kind of a mask [batch, keys]; others broadcast to the scores


def transformer_encoder_layer(
    src: torch.Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> torch.Tensor:
    def norm_1(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def norm_2(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    def attended(x: torch.Tensor) -> torch.Tensor:
        qkv = F.linear(x, qkv_weight, qkv_bias)
        hidden = None if mask is None else _hidden(mask, mask_type)
        return F.linear(_attention(qkv, num_heads, hidden), proj_weight, proj_bias)

    def fed_forward(x: torch.Tensor) -> torch.Tensor:
        hidden = F.linear(x, ffn_weight_1, ffn_bias_1)
        hidden = F.gelu(hidden) if use_gelu else F.relu(hidden)
        return F.linear(hidden, ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = src + attended(norm_1(src))
        return x + fed_forward(norm_2(x))
    x = norm_1(src + attended(src))
    return norm_2(x + fed_forward(x))


def _hidden(mask: torch.Tensor, mask_type: int | None) -> torch.Tensor:
    """Where scores do not count: the nonzeros of the operator's mask, whatever its dtype."""
    hidden = mask != 0
    if mask_type == _KEYS_OF_EACH_BATCH:
        return hidden[:, None, None, :]
    return hidden


def _attention(qkv: torch.Tensor, num_heads: int, hidden: torch.Tensor | None) -> torch.Tensor:
    batch, length, width = qkv.shape
    head = width // 3 // num_heads
    q, k, v = qkv.view(batch, length, 3, num_heads, head).permute(2, 0, 3, 1, 4)
    scores = (q * head**-0.5) @ k.transpose(2, 3)
    if hidden is not None:
        # Not scaled_dot_product_attention: rows that are hidden as a whole are NaN here.
        scores = scores.masked_fill(hidden, float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width // 3)
