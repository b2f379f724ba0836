"""Every name of the packages that scripts import, and what it does."""

import os
import tempfile

import torch
import torch_npu  # noqa: F401
import torchair
from npugraph_ex.inference import cache_compile as third
from npugraph_ex.scope import limit_core_num
from torch.npu.npugraph_ex.inference import cache_compile, readable_cache
from torch_npu.dynamo.torchair.scope import super_kernel
from torch_npu.npu.npugraph_ex.inference import cache_compile as second
from torchair import inference, ops, scope

assert cache_compile is second is third is inference.cache_compile
assert torch.npu.npugraph_ex.inference.readable_cache is readable_cache
torchair.patch_for_hcom()


class Model(torch.nn.Module):
    def forward(self, x):
        y = x * 2
        with scope.npu_stream_switch("side", 3), scope.limit_core_num(4, 8):
            z = scope.npu_wait_tensor(y, x) + 1
            ops.npu_record_tagged_stream(y, "side")
        with super_kernel("both"), scope.data_dump(), scope.op_never_timeout(True):
            z = z * 3
        ops.npu_print("z is", z)
        return z


x = torch.ones(2, 3).npu()
model = Model()
for backend in (torchair.get_npu_backend(), "npugraph_ex"):
    print("scopes", torch.compile(model, backend=backend, fullgraph=True)(x).cpu().unique().item())
with limit_core_num(2, 2):
    print("eager", model(x).cpu().unique().item())

event = ops.npu_create_tagged_event("copied")


def step(x):
    y = x + 1
    ops.npu_tagged_event_record(event)
    ops.npu_tagged_event_wait(event)
    return y * 2


print("events", torch.compile(step, backend="npugraph_ex", fullgraph=True)(x).cpu().unique().item())


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x):
        return torch.relu(self.linear(x))


plain = Scale().npu().eval()
with tempfile.TemporaryDirectory() as folder:
    torchair.dynamo_export(x, model=plain, export_path=f"{folder}/out", dynamic=True)
    print("exported", sorted(os.listdir(f"{folder}/out")))
    loaded = torch.export.load(f"{folder}/out/export.pt2").module()
    torch.testing.assert_close(loaded(x), plain(x))

    torch.jit.save(plain, f"{folder}/plain.pt")
    torch.jit.save(torch.compile(plain, backend="npugraph_ex"), f"{folder}/compiled.pt")
    for name in ("plain", "compiled"):
        torch.testing.assert_close(torch.jit.load(f"{folder}/{name}.pt")(x), plain(x))

options = {"enable_shape_handling": True}
handled = torch.compile(plain, backend="inductor", options=options)
with torch.no_grad():
    for rows in (2, 3, 5):
        rows_of = torch.ones(rows, 3).npu()
        torch.testing.assert_close(handled(rows_of), plain(rows_of))
print("done")
