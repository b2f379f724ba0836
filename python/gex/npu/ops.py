"""Fused operators of torch_npu, implemented with PyTorch operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

_LAYOUTS = ("BSH", "SBH", "BNSD", "BSND", "TND")
_NO_MASK_MODE, _ALL_MASK_MODE, _LEFT_UP, _RIGHT_DOWN = 0, 1, 2, 3


def npu_rms_norm(
    self: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """The normalised tensor and the reciprocal root mean square."""
    axes = list(range(self.dim() - gamma.dim(), self.dim()))
    wide = self.float()
    rstd = torch.rsqrt(wide.square().mean(axes, keepdim=True) + epsilon)
    return (wide * rstd).to(self.dtype) * gamma, rstd


def npu_add_rms_norm(
    x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Like npu_rms_norm of the sum, and the sum itself."""
    total = x1 + x2
    normed, rstd = npu_rms_norm(total, gamma, epsilon)
    return normed, rstd, total


def npu_swiglu(self: torch.Tensor, dim: int = -1) -> torch.Tensor:
    gate, up = self.chunk(2, dim)
    return torch.nn.functional.silu(gate) * up


def npu_fast_gelu(self: torch.Tensor) -> torch.Tensor:
    return self * torch.sigmoid(1.702 * self)


def npu_rotary_mul(
    self: torch.Tensor, r1: torch.Tensor, r2: torch.Tensor, rotary_mode: str = "half"
) -> torch.Tensor:
    if rotary_mode == "half":
        first, second = self.chunk(2, -1)
        turned = torch.cat((-second, first), -1)
    elif rotary_mode == "interleave":
        first, second = self[..., ::2], self[..., 1::2]
        turned = torch.stack((-second, first), -1).flatten(-2)
    else:
        raise ValueError(f"rotary_mode must be 'half' or 'interleave', got {rotary_mode!r}")
    return self * r1 + turned * r2


def npu_dtype_cast(self: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return self.to(dtype)


def npu_format_cast(self: torch.Tensor, acl_format: int) -> torch.Tensor:
    """A no-op: tensors always have PyTorch's layout here."""
    return self


def _to_heads(x: torch.Tensor, layout: str, heads: int) -> torch.Tensor:
    """As [batch, head, row, column]."""
    if layout == "BNSD":
        return x
    if layout == "BSND":
        return x.transpose(1, 2)
    if layout == "BSH":
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)
    return x.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)  # SBH


def _from_heads(x: torch.Tensor, layout: str) -> torch.Tensor:
    if layout == "BNSD":
        return x
    if layout == "BSND":
        return x.transpose(1, 2)
    if layout == "BSH":
        return x.transpose(1, 2).flatten(2)
    return x.permute(2, 0, 1, 3).flatten(2)  # SBH


def npu_fusion_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    head_num: int,
    input_layout: str,
    pse: torch.Tensor | None = None,
    padding_mask: torch.Tensor | None = None,
    atten_mask: torch.Tensor | None = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = 2147483647,
    next_tockens: int = 2147483647,
    inner_precise: int = 0,
    prefix: Sequence[int] | None = None,
    actual_seq_qlen: Sequence[int] | None = None,
    actual_seq_kvlen: Sequence[int] | None = None,
    sparse_mode: int = 0,
    gen_mask_parallel: bool = True,
    sync: bool = False,
) -> tuple[Any, ...]:
    """Attention; returns (result, row maxima, row sums, empty, 0, 0, 0) as torch_npu does."""
    if input_layout not in _LAYOUTS:
        raise ValueError(f"input_layout must be one of {_LAYOUTS}, got {input_layout!r}")
    if sparse_mode not in (_NO_MASK_MODE, _ALL_MASK_MODE, _LEFT_UP, _RIGHT_DOWN):
        raise ValueError(f"sparse_mode {sparse_mode} is not supported under gex.npu; use 0 to 3")
    settings = (pse, atten_mask, scale, keep_prob, sparse_mode)
    if input_layout != "TND":
        key_heads = head_num * key.shape[-1] // query.shape[-1]
        if input_layout in ("BNSD", "BSND"):
            key_heads = head_num
        out, peak, total = _attention(
            _to_heads(query, input_layout, head_num),
            _to_heads(key, input_layout, key_heads),
            _to_heads(value, input_layout, key_heads),
            *settings,
        )
        return _from_heads(out, input_layout), peak, total, query.new_empty(0), 0, 0, 0
    if actual_seq_qlen is None or actual_seq_kvlen is None:
        raise ValueError("input_layout 'TND' needs actual_seq_qlen and actual_seq_kvlen")
    outs, q_start, k_start = [], 0, 0
    for q_end, k_end in zip(actual_seq_qlen, actual_seq_kvlen):
        parts = (query[q_start:q_end], key[k_start:k_end], value[k_start:k_end])
        q, k, v = (part.transpose(0, 1).unsqueeze(0) for part in parts)
        out, _, _ = _attention(q, k, v, *settings)
        outs.append(out.squeeze(0).transpose(0, 1))
        q_start, k_start = q_end, k_end
    return torch.cat(outs), query.new_empty(0), query.new_empty(0), query.new_empty(0), 0, 0, 0


def _attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    pse: torch.Tensor | None,
    mask: torch.Tensor | None,
    scale: float,
    keep_prob: float,
    sparse_mode: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    repeat = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
    scores = (q @ k.transpose(-1, -2)).float() * scale
    if pse is not None:
        scores = scores + pse
    rows, columns = scores.shape[-2:]
    if sparse_mode in (_LEFT_UP, _RIGHT_DOWN):
        shift = columns - rows if sparse_mode == _RIGHT_DOWN else 0
        mask = torch.ones(rows, columns, dtype=torch.bool, device=q.device).triu(1 + shift)
    if mask is not None:
        scores = scores.masked_fill(mask.bool(), -math.inf)
    peak = scores.amax(-1, keepdim=True)
    weights = torch.exp(scores - peak.masked_fill(peak == -math.inf, 0.0))
    total = weights.sum(-1, keepdim=True)
    weights = torch.where(total > 0, weights / total, 0.0).to(q.dtype)
    weights = torch.nn.functional.dropout(weights, 1.0 - keep_prob)
    return weights @ v, peak.expand(*peak.shape[:-1], 8), total.expand(*total.shape[:-1], 8)


_FUNCTIONS: tuple[Callable[..., Any], ...] = (
    npu_add_rms_norm,
    npu_dtype_cast,
    npu_fast_gelu,
    npu_format_cast,
    npu_fusion_attention,
    npu_rms_norm,
    npu_rotary_mul,
    npu_swiglu,
)
NAMES: dict[str, Callable[..., Any]] = {function.__name__: function for function in _FUNCTIONS}
