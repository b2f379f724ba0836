"""Run by torchrun: a Qwen3 decoder layer split over the processes by DTensor, compiled, beside the
whole layer in one process."""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer, Qwen3RotaryEmbedding

import gex
from tiny_qwen3 import tiny_qwen3

BACKEND = sys.argv[1]
PLAN = {
    **{f"self_attn.{name}_proj": ColwiseParallel() for name in "qkv"},
    "self_attn.o_proj": RowwiseParallel(),
    "mlp.gate_proj": ColwiseParallel(),
    "mlp.up_proj": ColwiseParallel(),
    "mlp.down_proj": RowwiseParallel(),
}

dist.init_process_group("gloo")
world = dist.get_world_size()
torch.manual_seed(0)
config = tiny_qwen3(
    num_attention_heads=8,
    num_key_value_heads=4,
    num_hidden_layers=1,
    attn_implementation="eager",
)
layer = Qwen3DecoderLayer(config, 0).eval()
for parameter in layer.parameters():
    torch.nn.init.normal_(parameter, std=0.1)
rotary = Qwen3RotaryEmbedding(config)


def run(fn: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    positions = torch.arange(x.shape[1])[None]
    mask = torch.full((x.shape[1], x.shape[1]), -1e9).triu(1)[None, None]
    with torch.no_grad():
        return fn(
            x,
            attention_mask=mask,
            position_ids=positions,
            position_embeddings=rotary(x, positions),
        )


data = [torch.randn(2, length, 64) for length in (5, 5, 9)]
want = [run(layer, x) for x in data]
parallelize_module(layer, init_device_mesh("cpu", (world,)), PLAN)
parts = {
    name: tuple(p.to_local().shape)
    for name, p in layer.self_attn.named_parameters()
    if "_proj" in name
}
assert parts["q_proj.weight"] == (128 // world, 64), parts
compiled = torch.compile(layer, backend=BACKEND, fullgraph=True, dynamic=True)
with gex.collect() as graphs:
    for x, expected in zip(data, want):
        got = run(compiled, x)
        assert expected.std() > 0.5, "the layer must do something"
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
collectives = [c.op for g in graphs for c in g.calls if "all_reduce" in c.op]
assert len(collectives) == 2 * len(graphs), collectives
dist.barrier()
if dist.get_rank() == 0:
    print(f"a layer split over {world} processes, {len(graphs)} graph")
dist.destroy_process_group()
