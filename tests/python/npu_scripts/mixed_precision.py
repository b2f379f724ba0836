"""Automatic mixed precision by its three names."""

import torch
import torch_npu
from torch_npu.npu.amp import GradScaler, autocast

model = torch.nn.Linear(8, 2).npu()
x = torch.randn(4, 8).npu()
with torch.autocast("npu"):
    assert model(x).dtype == torch.float16
    assert torch.is_autocast_enabled("npu")
with torch.autocast(device_type="npu", dtype=torch.bfloat16):
    assert model(x).dtype == torch.bfloat16
with torch.npu.amp.autocast(dtype=torch.bfloat16):
    assert model(x).dtype == torch.bfloat16
with autocast(enabled=False):
    assert model(x).dtype == torch.float32

scaler = GradScaler()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with autocast(dtype=torch.bfloat16):
    loss = model(x).float().square().mean()
before = model.weight.detach().cpu()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
assert not torch.equal(before, model.weight.cpu())
assert isinstance(torch_npu.__version__, str)
print("done")
