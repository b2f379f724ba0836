"""Attention of CUDA tensors by the engine's own op.

PyTorch lowers scaled_dot_product_attention to an operator of one of its CUDA libraries before the
backend sees it. During tracing only the memory-efficient one is allowed, and it is decomposed into
the equivalent CPU operator of PyTorch, which has a native row.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

_aten = torch.ops.aten


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: torch.Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> Any:
    # Only PyTorch knows the dropout mask; the CPU operator has a single head size.
    if dropout_p != 0 or query.shape[-1] != value.shape[-1]:
        return NotImplemented
    output, logsumexp = _aten._scaled_dot_product_flash_attention_for_cpu.default(
        query, key, value, dropout_p, is_causal, attn_mask=attn_bias, scale=scale
    )
    unused = torch.zeros((), dtype=torch.long, device=query.device)
    return output, logsumexp, unused, unused


def _attention_backward(
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: torch.Tensor | None,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    philox_seed: torch.Tensor,
    philox_offset: torch.Tensor,
    dropout_p: float,
    grad_input_mask: list[bool],
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> Any:
    if dropout_p != 0 or grad_input_mask[3] or query.shape[-1] != value.shape[-1]:
        return NotImplemented
    gradients = _aten._scaled_dot_product_flash_attention_for_cpu_backward.default(
        grad_out,
        query,
        key,
        value,
        out,
        logsumexp,
        dropout_p,
        is_causal,
        attn_mask=attn_bias,
        scale=scale,
    )
    return (*gradients, None)


def _scores(
    query: torch.Tensor,
    key: torch.Tensor,
    is_causal: bool,
    attn_mask: torch.Tensor | None,
    scale: float | None,
) -> tuple[torch.Tensor, float]:
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    wide = torch.promote_types(query.dtype, torch.float32)
    scores = query.to(wide) @ key.to(wide).transpose(-2, -1) * factor
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~seen, -math.inf)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return scores, factor


def _laid_out(operator: Any, results: tuple[torch.Tensor, ...], *args: Any) -> Any:
    """The results with the strides that PyTorch promises for the operator."""
    promised = operator(*(x.to("meta") if isinstance(x, torch.Tensor) else x for x in args))
    return tuple(
        torch.empty_strided(like.shape, like.stride(), dtype=x.dtype, device=x.device).copy_(x)
        for x, like in zip(results, promised)
    )


def _run_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> Any:
    scores, _ = _scores(query, key, is_causal, attn_mask, scale)
    logsumexp = scores.logsumexp(-1)
    weights = (scores - logsumexp[..., None]).exp().nan_to_num()  # rows that see nothing: 0
    out = (weights @ value.to(weights.dtype)).to(query.dtype)
    operator = _aten._scaled_dot_product_flash_attention_for_cpu.default
    return _laid_out(operator, (out, logsumexp), query, key, value)


def _run_attention_backward(
    grad_out: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: torch.Tensor | None = None,
    scale: float | None = None,
) -> Any:
    scores, factor = _scores(query, key, is_causal, attn_mask, scale)
    weights = (scores - logsumexp[..., None]).exp().nan_to_num()
    wide = weights.dtype
    grad, values = grad_out.to(wide), value.to(wide)
    inner = (grad * out.to(wide)).sum(-1, keepdim=True)
    grad_scores = weights * (grad @ values.transpose(-2, -1) - inner) * factor
    grad_query = grad_scores @ key.to(wide)
    grad_key = grad_scores.transpose(-2, -1) @ query.to(wide)
    grad_value = weights.transpose(-2, -1) @ grad
    gradients = (grad_query.to(query.dtype), grad_key.to(key.dtype), grad_value.to(value.dtype))
    operator = _aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    saved = (query, key, value, out, logsumexp)
    return _laid_out(operator, gradients, grad_out, *saved, dropout_p, is_causal)


@functools.cache
def _register_forms_for_pytorch() -> torch.library.Library:
    """Graphs and calls that PyTorch runs itself need the operator for CUDA tensors too."""
    library = torch.library.Library("aten", "IMPL", "CUDA")
    library.impl("_scaled_dot_product_flash_attention_for_cpu", _run_attention)
    library.impl("_scaled_dot_product_flash_attention_for_cpu_backward", _run_attention_backward)
    return library


def decompositions() -> dict[Any, Callable[..., Any]]:
    return {
        _aten._scaled_dot_product_efficient_attention.default: _attention,
        _aten._scaled_dot_product_efficient_attention_backward.default: _attention_backward,
    }


@contextlib.contextmanager
def traced_as_efficient(example_inputs: Any) -> Iterator[None]:
    """Keeps PyTorch from selecting operators without a native form, for CUDA tensors only."""
    is_cuda = any(isinstance(x, torch.Tensor) and x.device.type == "cuda" for x in example_inputs)
    if not is_cuda:
        yield
        return
    _register_forms_for_pytorch()
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        yield
