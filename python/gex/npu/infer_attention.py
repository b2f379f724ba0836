"""Attention for inference with lengths on the host: operators of namespace `npu`, as in torch_npu.

They are operators rather than functions, so that a recording can update their lengths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from gex.npu.ops import _from_heads, _to_heads

_LAYOUTS = ("BSH", "BNSD", "BSND", "TND")
_COMMON = (
    "int num_heads=1, float scale=1.0, int pre_tokens=2147483647, int next_tokens=2147483647, "
    'str input_layout="BSH", int num_key_value_heads=0, int sparse_mode=0, int inner_precise=0, '
    "int block_size=0, bool softmax_lse_flag=False) -> (Tensor, Tensor)"
)
_RIGHT_DOWN = 3  # sparse_mode: causal, the last query sees the last key

_library = torch.library.Library("npu", "FRAGMENT")
_library.define(
    "npu_fused_infer_attention_score(Tensor query, Tensor key, Tensor value, *, "
    "Tensor? pse_shift=None, Tensor? atten_mask=None, SymInt[]? actual_seq_lengths=None, "
    "SymInt[]? actual_seq_lengths_kv=None, Tensor? block_table=None, " + _COMMON
)
_library.define(
    "npu_fused_infer_attention_score_v2(Tensor query, Tensor key, Tensor value, *, "
    "Tensor? pse_shift=None, Tensor? atten_mask=None, SymInt[]? actual_seq_qlen=None, "
    "SymInt[]? actual_seq_kvlen=None, Tensor? block_table=None, int num_query_heads=1, "
    "int num_key_value_heads=0, float softmax_scale=1.0, int pre_tokens=2147483647, "
    'int next_tokens=2147483647, str input_layout="BSH", int sparse_mode=0, int block_size=0, '
    "bool return_softmax_lse=False) -> (Tensor, Tensor)"
)
_library.define(
    "_npu_paged_attention(Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, "
    "int num_heads, float scale_value, Tensor block_table, Tensor context_lens, Tensor(a!) out) "
    "-> ()"
)


def _fused(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    pse_shift: torch.Tensor | None = None,
    atten_mask: torch.Tensor | None = None,
    actual_seq_lengths: Sequence[int] | None = None,
    actual_seq_lengths_kv: Sequence[int] | None = None,
    block_table: torch.Tensor | None = None,
    num_heads: int = 1,
    scale: float = 1.0,
    pre_tokens: int = 2147483647,
    next_tokens: int = 2147483647,
    input_layout: str = "BSH",
    num_key_value_heads: int = 0,
    sparse_mode: int = 0,
    inner_precise: int = 0,
    block_size: int = 0,
    softmax_lse_flag: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    if input_layout not in _LAYOUTS:
        raise ValueError(f"input_layout must be one of {_LAYOUTS}, got {input_layout!r}")
    if sparse_mode not in (0, 1, 2, _RIGHT_DOWN):
        raise ValueError(f"sparse_mode {sparse_mode} is not supported under gex.npu; use 0 to 3")
    key_heads = num_key_value_heads or num_heads
    q = _rows_of_batches(query, input_layout, num_heads, actual_seq_lengths)
    q_lengths = _lengths(actual_seq_lengths, input_layout == "TND")
    if block_table is not None:  # [blocks, rows of a block, heads * columns]
        key, value = (x[block_table.long()].flatten(1, 2) for x in (key, value))
        k, v = (_to_heads(x.flatten(2), "BSH", key_heads) for x in (key, value))
        k_lengths = _lengths(actual_seq_lengths_kv, False)
    else:
        k, v = (
            _rows_of_batches(x, input_layout, key_heads, actual_seq_lengths_kv)
            for x in (key, value)
        )
        k_lengths = _lengths(actual_seq_lengths_kv, input_layout == "TND")
    rows, columns = q.shape[2], k.shape[2]
    hidden = _beyond(k_lengths, columns, q)[:, None, None, :]
    if atten_mask is not None and sparse_mode in (0, 1):
        hidden = hidden | atten_mask.bool()
    if sparse_mode in (2, _RIGHT_DOWN):
        hidden = hidden | _causal(q_lengths, k_lengths, rows, columns, sparse_mode, q)
    out, lse = _attend(q, k, v, pse_shift, hidden, scale)
    out = out.masked_fill(_beyond(q_lengths, rows, q)[:, None, :, None], 0)
    lse = lse if softmax_lse_flag else lse.new_zeros(1)
    if input_layout == "TND":
        assert q_lengths is not None
        parts = [out[b, :, :length].transpose(0, 1) for b, length in enumerate(q_lengths)]
        return torch.cat(
            [*parts, query.new_zeros(query.shape[0] - sum(q_lengths), *query.shape[1:])]
        ), lse
    return _from_heads(out, input_layout).contiguous(), lse


def _lengths(given: Sequence[int] | None, is_cumulative: bool) -> list[int] | None:
    """Rows of each sequence; packed sequences are given by their ends."""
    if given is None:
        return None
    ends = [int(end) for end in given]
    return [b - a for a, b in zip([0, *ends], ends)] if is_cumulative else ends


def _rows_of_batches(
    x: torch.Tensor, layout: str, heads: int, given: Sequence[int] | None
) -> torch.Tensor:
    """As [batch, head, row, column]; packed sequences are padded to one length."""
    if layout != "TND":
        return _to_heads(x, layout, heads)
    lengths = _lengths(given, True)
    if lengths is None:
        raise ValueError("input_layout 'TND' needs the lengths of queries and of keys")
    parts = x[: sum(lengths)].split(lengths)
    return torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True).transpose(1, 2)


def _beyond(lengths: list[int] | None, size: int, like: torch.Tensor) -> torch.Tensor:
    """Mask of the positions after the end of each sequence."""
    if lengths is None:
        return torch.zeros(like.shape[0], size, dtype=torch.bool, device=like.device)
    ends = torch.tensor(lengths, device=like.device).expand(like.shape[0])
    return torch.arange(size, device=like.device) >= ends[:, None]


def _causal(
    q_lengths: list[int] | None,
    k_lengths: list[int] | None,
    rows: int,
    columns: int,
    sparse_mode: int,
    like: torch.Tensor,
) -> torch.Tensor:
    batch = like.shape[0]
    q_ends = torch.tensor(q_lengths or [rows]).expand(batch)
    k_ends = torch.tensor(k_lengths or [columns]).expand(batch)
    shift = k_ends - q_ends if sparse_mode == _RIGHT_DOWN else torch.zeros(batch)
    row = torch.arange(rows)[None, :, None] + shift[:, None, None]
    return (torch.arange(columns) > row)[:, None].to(like.device)


def _attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None,
    hidden: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The weighted values and the logarithm of the sums; rows without visible keys are zero."""
    repeat = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
    scores = (q @ k.transpose(-1, -2)).float() * scale
    if bias is not None:
        scores = scores + bias
    scores = scores.masked_fill(hidden, -math.inf)
    lse = torch.logsumexp(scores, -1, keepdim=True)
    weights = torch.exp(scores - lse.masked_fill(lse == -math.inf, 0.0)).to(q.dtype)
    return weights @ v, lse


def _fused_v2(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    actual_seq_qlen: Sequence[int] | None = None,
    actual_seq_kvlen: Sequence[int] | None = None,
    num_query_heads: int = 1,
    softmax_scale: float = 1.0,
    return_softmax_lse: bool = False,
    **others: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    return _fused(
        query,
        key,
        value,
        actual_seq_lengths=actual_seq_qlen,
        actual_seq_lengths_kv=actual_seq_kvlen,
        num_heads=num_query_heads,
        scale=softmax_scale,
        softmax_lse_flag=return_softmax_lse,
        **others,
    )


def _paged(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    num_kv_heads: int,
    num_heads: int,
    scale_value: float,
    block_table: torch.Tensor,
    context_lens: torch.Tensor,
    out: torch.Tensor,
) -> None:
    """One query row per sequence: [sequences, heads, columns]."""
    result, _ = _fused(
        query[:, :, None],
        key_cache.flatten(2),
        value_cache.flatten(2),
        actual_seq_lengths_kv=context_lens.tolist(),
        block_table=block_table,
        num_heads=num_heads,
        num_key_value_heads=num_kv_heads,
        scale=scale_value,
        input_layout="BNSD",
    )
    out.copy_(result[:, :, 0].view_as(out))


def _fused_like(query: torch.Tensor, key: Any, value: Any, **others: Any) -> Any:
    """Fake results; the sums only if requested."""
    layout = others.get("input_layout", "BSH")
    heads = others.get("num_heads", others.get("num_query_heads", 1))
    rows = {"BSH": 1, "BSND": 1, "BNSD": 2, "TND": 0}[layout]
    lse = [1]
    if others.get("softmax_lse_flag") or others.get("return_softmax_lse"):
        lse = [query.shape[0], heads, query.shape[rows], 1]
    return torch.empty_like(query, memory_format=torch.contiguous_format), query.new_empty(
        lse, dtype=torch.float32
    )


_FORMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "npu_fused_infer_attention_score": (_fused, _fused_like),
    "npu_fused_infer_attention_score_v2": (_fused_v2, _fused_like),
    "_npu_paged_attention": (_paged, lambda *operands: None),
}
for _name, (_run, _like) in _FORMS.items():
    _library.impl(_name, _run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"npu::{_name}", _like, lib=_library)

NAMES: dict[str, Any] = {name: getattr(torch.ops.npu, name) for name in _FORMS}
