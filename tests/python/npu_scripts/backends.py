"""The three ways to name a compiler: npugraph_ex with its options, npugraphs, torchair."""

import torch
import torch_npu  # noqa: F401
import torchair
from torch_npu.dynamo import torchair as same_torchair
from torchair.configs.compiler_config import CompilerConfig


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(16, 32)
        self.second = torch.nn.Linear(32, 4)

    def forward(self, x):
        mask = torch.arange(x.shape[0], device="npu:0").unsqueeze(1) % 2
        return self.second(torch.relu(self.first(x))) * mask.to(torch.device("npu"))


assert same_torchair is torchair and CompilerConfig is torchair.CompilerConfig
model = Small().npu()
x = torch.randn(5, 16).npu()
expected = model(x)

options = {
    "force_eager": False,
    "inplace_pass": True,
    "input_inplace_pass": True,
    "pattern_fusion_pass": True,
    "reuse_graph_pool_in_same_fx": True,
    "clone_input": True,
    "clone_output": False,
    "use_graph_pool": None,
    "static_kernel_compile": False,
    "remove_noop_ops": True,
    "frozen_parameter": False,
    "capture_limit": 64,
}
compiled = torch.compile(model, backend="npugraph_ex", fullgraph=True, dynamic=False)
torch.testing.assert_close(compiled(x), expected)
compiled = torch.compile(model, backend="npugraph_ex", fullgraph=True, options=options)
torch.testing.assert_close(compiled(x), expected)

config = torchair.CompilerConfig()
config.experimental_config.frozen_parameter = True
config.debug.run_eagerly = False
backend = torchair.get_npu_backend(compiler_config=config)
torch.testing.assert_close(torch.compile(model, backend=backend)(x), expected)

for wrong in (
    lambda: setattr(config, "mode", "fast"),
    lambda: setattr(config.experimental_config, "frozen_parameter", "yes"),
    lambda: setattr(config.experimental_config, "frozen_parametre", True),
):
    try:
        wrong()
    except ValueError as problem:
        print("refused:", problem)
    else:
        raise AssertionError("a wrong option was taken")
