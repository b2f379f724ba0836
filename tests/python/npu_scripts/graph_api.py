"""The API of npugraph_ex under each of its names, and quantising operators."""

import npugraph_ex
import torch
import torch.npu.npugraph_ex as through_torch
import torch_npu
import torchair

assert through_torch.register_replacement is npugraph_ex.register_replacement
assert torch.npu.npugraph_ex.compile_fx is torch_npu.npu.npugraph_ex.compile_fx

config = npugraph_ex.CompilerConfig()
config.clone_output = True
backend = torch.npu.npugraph_ex.get_npu_backend(compiler_config=config)
x = torch.ones(2, 8).npu()
print("configured", torch.compile(lambda x: x + 1, backend=backend)(x).sum().item())

tripled = {torch.ops.aten.add.Tensor: lambda a, b: a * 3}
backend = torchair.get_npu_backend(custom_decompositions=tripled)
print("decomposed", torch.compile(lambda a, b: a + b, backend=backend)(x, x).sum().item())

rows, scale = torch_npu.npu_dynamic_quant(torch.randn(3, 8).npu())
print("quantised", rows.dtype, tuple(scale.shape))
