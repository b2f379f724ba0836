"""Recorded calls under torch.npu: attention whose lengths are updated, waiting, steps."""

import torch
import torch_npu

q, k, v = (torch.randn(2, 1, rows, 8, device="npu:0") for rows in (1, 64, 64))


def attention(lengths):
    out, _ = torch_npu.npu_fused_infer_attention_score(
        q, k, v, actual_seq_lengths_kv=lengths, input_layout="BNSD"
    )
    return out


g = torch.npu.NPUGraph()
with torch.npu.graph(g, auto_dispatch_capture=True, stream=torch.npu.Stream()):
    print("capturing", torch.npu.is_current_stream_capturing())
    out = attention([10, 20])
g.replay()
g.update(cpu_update_input=[{"actual_seq_lengths_kv": [64, 1]}])
torch.npu.synchronize()
print("updated", torch.allclose(out, attention([64, 1])), torch.allclose(out, attention([10, 20])))

for wait in (torch.npu.synchronize, torch.npu.empty_cache):
    try:
        with torch.npu.graph(torch.npu.NPUGraph()):
            wait()
    except RuntimeError as problem:
        print(str(problem).partition(" while")[0], "refused")


def doubled(x):
    y = x * 2
    torch.npu.synchronize()
    return y + 1


torch.compiler.npugraph_mark_step_begin()
print("split", torch.compile(doubled, backend="npugraph_ex")(torch.ones(2, device="npu")).tolist())
