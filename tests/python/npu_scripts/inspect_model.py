"""Device functions used while inspecting a model: operators, memory, time, checkpoints."""

import tempfile

import torch
import torch.nn as nn
import torch_npu
from torch.utils.checkpoint import checkpoint
from torch_npu.profiler import Profile


class ConvBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.bn = nn.BatchNorm2d(8)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.bn(self.conv(x)))


model = ConvBlock()
host = torch.randn(2, 3, 16, 16)
with Profile() as prof:
    model(host)
table = prof.key_averages().table()
assert "aten::conv2d" in table and "aten::relu" in table

with (
    tempfile.TemporaryDirectory() as folder,
    torch_npu.profiler.profile(
        activities=[
            torch_npu.profiler.ProfilerActivity.CPU,
            torch_npu.profiler.ProfilerActivity.NPU,
        ],
        schedule=torch_npu.profiler.schedule(wait=0, warmup=0, active=1, repeat=1),
        on_trace_ready=torch_npu.profiler.tensorboard_trace_handler(folder),
        experimental_config=torch_npu.profiler._ExperimentalConfig(
            profiler_level=torch_npu.profiler.ProfilerLevel.Level1
        ),
    ) as prof,
):
    model(host)
    prof.step()
    assert "conv2d" in prof.key_averages().table(sort_by="self_npu_time_total", row_limit=50)

on_device = torch.ones(1 << 20).npu()
print(f"allocated: {torch.npu.memory_allocated() / 1024**2:.2f} MB")
print(f"peak: {torch.npu.max_memory_allocated() / 1024**2:.2f} MB")

model = model.npu().eval()
on_npu = host.npu()
for _ in range(3):
    result = model(on_npu).cpu()
start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
stream = torch.npu.Stream()
with torch.npu.stream(stream):
    start.record()
    model(on_npu)
    end.record()
stream.synchronize()
torch.npu.current_stream().wait_stream(stream)
assert start.elapsed_time(end) > 0


@torch.jit.script
def fused_ops(x, y):
    z = x + y
    z = z * 2
    return torch.relu(z)


torch.testing.assert_close(fused_ops(on_npu, on_npu), torch.relu(on_npu * 4))
with tempfile.NamedTemporaryFile() as file:
    torch.jit.save(torch.jit.trace(model, on_npu), file.name)
    loaded = torch.jit.load(file.name, map_location="npu:0")
torch.testing.assert_close(loaded(on_npu), model(on_npu))

layer = nn.Linear(8, 8).npu()
checkpoint(layer, torch.randn(2, 8).npu(), use_reentrant=False).sum().backward()
assert layer.weight.grad is not None
print("done")
