"""torch_npu's attention with lengths on the host, in compiled functions."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import gex.npu.infer_attention  # noqa: F401 - the operators of namespace npu
from conftest import assert_same
from graph_counts import compiled, count

fused = torch.ops.npu.npu_fused_infer_attention_score


@torch.no_grad()
def test_case_76_lengths_of_the_operator_change_without_a_capture(device: str) -> None:
    q, k, v = (torch.randn(3, 2, rows, 16, device=device) for rows in (4, 100, 100))

    def function(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: list[int]
    ) -> torch.Tensor:
        out, _ = fused(
            q * 2, k, v, actual_seq_lengths_kv=lengths, num_heads=2, scale=0.25, input_layout="BNSD"
        )
        return out + 1

    fn = compiled(function, dynamic=True)
    for lengths in ([28, 29, 1], [66, 88, 55], [100, 5, 77]):
        seen = torch.arange(100, device=device) < torch.tensor(lengths, device=device)[:, None]
        want = nn.functional.scaled_dot_product_attention(
            q * 2, k, v, seen[:, None, None], scale=0.25
        )
        assert_same(fn(q, k, v, lengths), want + 1)
    # A length of 1 is a graph of its own, by Dynamo's rule for ones.
    assert count("captured") == 1


@pytest.mark.parametrize("layout", ["BSH", "BSND", "BNSD"])
@pytest.mark.parametrize("sparse_mode", [0, 2, 3])
def test_layouts_grouped_heads_and_masks(layout: str, sparse_mode: int, device: str) -> None:
    q = torch.randn(2, 4, 5, 8, device=device)
    k, v = (torch.randn(2, 2, 7, 8, device=device) for _ in range(2))

    def lay_out(x: torch.Tensor) -> torch.Tensor:
        if layout == "BNSD":
            return x
        rows = x.transpose(1, 2)
        return rows if layout == "BSND" else rows.flatten(2)

    got, lse = fused(
        *(lay_out(x) for x in (q, k, v)),
        actual_seq_lengths=[5, 3],
        actual_seq_lengths_kv=[7, 4],
        num_heads=4,
        num_key_value_heads=2,
        scale=0.5,
        input_layout=layout,
        sparse_mode=sparse_mode,
        softmax_lse_flag=True,
    )
    want = torch.zeros_like(q)
    for b, (rows, columns) in enumerate(((5, 7), (3, 4))):
        keys, values = (x[b, :, :columns].repeat_interleave(2, 0) for x in (k, v))
        scores = q[b, :, :rows] @ keys.transpose(1, 2) * 0.5
        if sparse_mode:
            shift = columns - rows if sparse_mode == 3 else 0
            hidden = torch.ones(rows, columns, device=device).triu(1 + shift).bool()
            scores = scores.masked_fill(hidden, -torch.inf)
        want[b, :, :rows] = scores.softmax(-1) @ values
        assert_same(lse[b, :, :rows, 0].clone(), scores.logsumexp(-1))
    assert_same(got.clone(), lay_out(want).contiguous())


def test_wrong_arguments_are_named(device: str) -> None:
    q = torch.randn(1, 1, 2, 4, device=device)
    with pytest.raises(ValueError, match="input_layout must be one of"):
        fused(q, q, q, input_layout="NBSD")
    with pytest.raises(ValueError, match="sparse_mode 4 is not supported"):
        fused(q, q, q, input_layout="BNSD", sparse_mode=4)
    with pytest.raises(ValueError, match="'TND' needs the lengths"):
        fused(q[0], q[0], q[0], input_layout="TND")
