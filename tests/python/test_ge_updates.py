"""Host arguments that change between replays: NPUGraph.update."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import torch
from torch import nn

import gex.npu.infer_attention  # noqa: F401 - the operators of namespace npu
from conftest import assert_same
from gex.recording import (
    NPUGraph,
    NpuGraphOpHandler,
    graph,
    graph_task_group_begin,
    graph_task_group_end,
    graph_task_update_begin,
    graph_task_update_end,
    register_npu_graph_handler,
)

LENGTHS = ([28, 29, 1], [66, 88, 55], [100, 5, 77])


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: list[int]) -> Any:
    return torch.ops.npu.npu_fused_infer_attention_score(
        q, k, v, actual_seq_lengths_kv=lengths, num_heads=2, scale=0.25, input_layout="BNSD"
    )[0]


def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    """The same by PyTorch's own attention."""
    seen = (
        torch.arange(k.shape[2], device=q.device) < torch.tensor(lengths, device=q.device)[:, None]
    )
    return nn.functional.scaled_dot_product_attention(q, k, v, seen[:, None, None], scale=0.25)


@pytest.fixture
def qkv(device: str) -> list[torch.Tensor]:
    return [torch.randn(3, 2, rows, 16, device=device) for rows in (4, 100, 100)]


@pytest.mark.parametrize("order", ["before", "after", "beside"])
def test_case_80_lengths_are_updated_between_replays(qkv: list[torch.Tensor], order: str) -> None:
    q, k, v = qkv
    g = NPUGraph()
    with graph(g, auto_dispatch_capture=True):
        first = attention(q * 2, k, v, LENGTHS[0])
        second = attention(first, k, v, LENGTHS[0]) + 1
    for lengths in LENGTHS:
        given = [{"actual_seq_lengths_kv": lengths}]
        q.normal_()
        if order == "before":
            g.update(cpu_update_input=given)
            g.replay()
        elif order == "after":
            g.replay()
            g.update(cpu_update_input=given)
        else:
            update = threading.Thread(target=g.update, args=(given,))
            update.start()
            g.replay()
            update.join()
        want = masked(q * 2, k, v, lengths)
        assert_same(first, want)
        assert_same(second, masked(want, k, v, lengths) + 1)


def test_case_80_after_a_change_an_update_is_for_the_next_replay(device: str) -> None:
    def values(length: int) -> torch.Tensor:
        return torch.ops.npu.npu_fused_infer_attention_score(
            q, k, v, actual_seq_lengths_kv=[length], input_layout="BNSD"
        )[0]

    q, k, v = (torch.randn(1, 1, 3, 4, device=device) for _ in range(3))
    total = torch.zeros(1, 1, 3, 4, device=device)
    g = NPUGraph()
    with graph(g, auto_dispatch_capture=True):
        total += values(3)
    g.replay()
    want = values(3)
    q.normal_()
    g.update([{"actual_seq_lengths_kv": [1]}])
    assert_same(total, want)
    g.replay()
    assert_same(total, want + values(1))


def test_case_80_each_call_can_have_its_own_update(qkv: list[torch.Tensor]) -> None:
    q, k, v = qkv
    g = NPUGraph()
    with graph(g, auto_dispatch_capture=True):
        first = attention(q, k, v, LENGTHS[0])
        second = attention(q, k, v, LENGTHS[0])
    g.update([{}, {"actual_seq_lengths_kv": LENGTHS[2]}])
    g.replay()
    assert_same(first, masked(q, k, v, LENGTHS[0]))
    assert_same(second, masked(q, k, v, LENGTHS[2]))


def test_case_80_a_late_update_undoes_what_the_replay_wrote(device: str) -> None:
    q, k, v = (torch.randn(1, 1, 3, 4, device=device) for _ in range(3))
    total = torch.zeros(1, 1, 3, 4, device=device)
    draws = torch.zeros(4, device=device)
    g = NPUGraph()
    with graph(g, auto_dispatch_capture=True):
        out = torch.ops.npu.npu_fused_infer_attention_score(
            q, k, v, actual_seq_lengths_kv=[3], input_layout="BNSD"
        )[0]
        total += out
        draws += torch.randn(4, device=device)
    torch.manual_seed(5)
    want = torch.zeros_like(total)
    for length in (1, 2, 3):
        g.replay()
        g.update([{"actual_seq_lengths_kv": [length]}])
        want += torch.ops.npu.npu_fused_infer_attention_score(
            q, k, v, actual_seq_lengths_kv=[length], input_layout="BNSD"
        )[0]
    assert_same(total, want)
    torch.manual_seed(5)
    assert_same(draws, sum(torch.randn(4, device=device) for _ in range(3)))


def test_case_80_update_without_the_flag_is_an_error(qkv: list[torch.Tensor]) -> None:
    with pytest.raises(RuntimeError, match="auto_dispatch_capture=True"):
        NPUGraph().update([{"actual_seq_lengths_kv": [3]}])
    g = NPUGraph()
    with graph(g):
        out = attention(*qkv, LENGTHS[0])
    with pytest.raises(RuntimeError, match="auto_dispatch_capture=True"):
        g.update([{"actual_seq_lengths_kv": LENGTHS[1]}])
    g.replay()
    assert_same(out, masked(*qkv, LENGTHS[0]))


def test_wrong_updates_are_reported_and_change_nothing(qkv: list[torch.Tensor]) -> None:
    g = NPUGraph()
    with graph(g, auto_dispatch_capture=True):
        outs = [attention(*qkv, LENGTHS[0]) for _ in range(3)]
    good = {"actual_seq_lengths_kv": LENGTHS[1]}
    with pytest.raises(RuntimeError, match="2 dicts for 3 recorded updatable calls"):
        g.update([good, good])
    with pytest.raises(RuntimeError, match="unknown key 'actual_seq_length_kv'; did you mean"):
        g.update([good, good, {"actual_seq_length_kv": LENGTHS[1]}])
    with pytest.raises(RuntimeError, match="must be ints"):
        g.update([good, good, {"actual_seq_lengths_kv": ["three"]}])
    with pytest.raises(RuntimeError, match="takes a list of dicts"):
        g.update(good)
    g.replay()
    for out in outs:
        assert_same(out, masked(*qkv, LENGTHS[0]))
    with graph(other := NPUGraph(), auto_dispatch_capture=True):
        _ = qkv[0] + 1
    with pytest.raises(RuntimeError, match="no updatable operator"):
        other.update([good])


def test_lengths_of_the_second_version_and_of_sequences_end_to_end(device: str) -> None:
    q, k, v = (torch.randn(12, 2, 8, device=device) for _ in range(3))

    def run(ends: list[int]) -> torch.Tensor:
        return torch.ops.npu.npu_fused_infer_attention_score_v2(
            q, k, v, actual_seq_qlen=ends, actual_seq_kvlen=ends, num_query_heads=2,
            softmax_scale=0.5, input_layout="TND", sparse_mode=3,
        )[0]  # fmt: skip

    g = NPUGraph()
    with graph(g, auto_dispatch_capture=True):
        out = run([4, 12])
    for ends in ([4, 12], [1, 12], [6, 9]):
        g.update([{"actual_seq_qlen": ends, "actual_seq_kvlen": ends}])
        g.replay()
        want = torch.zeros_like(q)
        for start, end in zip([0, *ends], ends):
            parts = [x[start:end].transpose(0, 1)[None] for x in (q, k, v)]
            part = nn.functional.scaled_dot_product_attention(*parts, is_causal=True, scale=0.5)
            want[start:end] = part[0].transpose(0, 1)
        assert_same(out, want)


def test_paged_attention_writes_to_its_output(device: str) -> None:
    q = torch.randn(2, 4, 8, device=device)
    k, v = (torch.randn(6, 16, 2, 8, device=device) for _ in range(2))
    table = torch.tensor([[4, 1], [3, 0]], dtype=torch.int32, device=device)
    out = torch.zeros_like(q)
    g = NPUGraph()
    with graph(g, auto_dispatch_capture=True):
        torch.ops.npu._npu_paged_attention(
            q, k, v, 2, 4, 0.3, table, torch.tensor([30, 7], dtype=torch.int32), out
        )
        doubled = out * 2
    for lengths in ([30, 7], [2, 19]):
        g.update([{"context_lens": torch.tensor(lengths, dtype=torch.int32)}])
        g.replay()
        for b, length in enumerate(lengths):
            keys, values = (
                x[table[b].long()].flatten(0, 1)[:length].transpose(0, 1).repeat_interleave(2, 0)
                for x in (k, v)
            )
            want = nn.functional.scaled_dot_product_attention(
                q[b, :, None], keys, values, scale=0.3
            )
            assert_same(out[b].clone(), want[:, 0].contiguous())
        assert_same(doubled, out * 2)
    with pytest.raises(RuntimeError, match=r"must be a tensor of size \[2\]"):
        g.update([{"context_lens": [3, 4]}])


@pytest.fixture
def own_ops() -> Iterator[Any]:
    library = torch.library.Library("test_updates", "FRAGMENT")
    library.define("scaled(Tensor x, int[] factors) -> Tensor")
    library.define("put(Tensor x, int factor, Tensor(a!) out) -> ()")

    def put(x: torch.Tensor, factor: int, out: torch.Tensor) -> None:
        out.copy_(x * factor)

    library.impl("put", put, "CompositeExplicitAutograd")
    library.impl("scaled", lambda x, factors: x * sum(factors), "CompositeExplicitAutograd")

    @register_npu_graph_handler(["scaled", "put"])
    class _Handler(NpuGraphOpHandler):
        UPDATE_SPECS: ClassVar = {
            "scaled": [("arg", 1, "factors")],
            "put": [("arg", 1, "factor")],
        }

    yield torch.ops.test_updates
    library._destroy()


def test_an_operator_of_the_users_is_updatable(own_ops: Any, device: str) -> None:
    x = torch.ones(3, device=device)
    g = NPUGraph()
    with graph(g, auto_dispatch_capture=True):
        y = own_ops.scaled(x, [1, 2]) + 1
    g.replay()
    assert y.tolist() == [4, 4, 4]
    g.update([{"factors": [10]}])
    x.fill_(2)
    g.replay()
    assert y.tolist() == [21, 21, 21]


def test_values_overwritten_by_an_updatable_call_are_kept_for_others(
    own_ops: Any, device: str
) -> None:
    x = torch.ones(3, device=device)
    g = NPUGraph()
    with graph(g, auto_dispatch_capture=True):
        out = torch.exp(x)
        old = out.clone()
        own_ops.put(x, 2, out)
        both = old + out * 10
    g.update([{"factor": 5}])
    g.replay()
    assert_same(out, x * 5)
    assert_same(both, torch.exp(x) + 50)


def test_a_task_group_is_updated_by_the_same_calls(qkv: list[torch.Tensor]) -> None:
    q, k, v = qkv
    g = NPUGraph()
    with graph(g):
        graph_task_group_begin()
        first = attention(q, k, v, LENGTHS[0])
        second = torch.clamp(first, -0.5, 0.5)
        handle = graph_task_group_end()
        third = second + 1
    for lengths, bound in zip(LENGTHS, (0.5, 0.1, 0.3)):
        q.normal_()
        g.replay()
        graph_task_update_begin(None, handle)
        torch.clamp(attention(q, k, v, lengths), -bound, bound)
        graph_task_update_end()
        want = masked(q, k, v, lengths)
        assert_same(first, want)
        assert_same(third, want.clamp(-bound, bound) + 1)


def test_task_groups_report_misuse(qkv: list[torch.Tensor]) -> None:
    with pytest.raises(RuntimeError, match="outside of a capture"):
        graph_task_group_begin()
    g = NPUGraph()
    with graph(g):
        with pytest.raises(RuntimeError, match="without graph_task_group_begin"):
            graph_task_group_end()
        graph_task_group_begin()
        out = torch.clamp(qkv[0], -0.5, 0.5)
        handle = graph_task_group_end()
    graph_task_update_begin(None, handle)
    with pytest.raises(RuntimeError, match=r"aten.clamp.default was recorded here, not aten.exp"):
        torch.exp(qkv[0])
    with pytest.raises(RuntimeError, match="0 of its 1 calls were made"):
        graph_task_update_end()
    with pytest.raises(RuntimeError, match="without graph_task_update_begin"):
        graph_task_update_end()
    with pytest.raises(TypeError, match="must come from graph_task_group_end"):
        graph_task_update_begin(None, 3)
    g.replay()
    assert_same(out, qkv[0].clamp(-0.5, 0.5))
