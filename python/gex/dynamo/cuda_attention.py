"""Attention of CUDA tensors by the engine's own op.

PyTorch lowers scaled_dot_product_attention to an operator of one of its CUDA libraries before the
backend sees it. During tracing only the memory-efficient one is allowed, and it is decomposed into
the equivalent CPU operator of PyTorch, which has a native row.
"""

from __future__ import annotations

import contextlib
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
    if dropout_p != 0:
        return NotImplemented  # only PyTorch knows the dropout mask
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
    if dropout_p != 0 or grad_input_mask[3]:
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
    with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        yield
