"""torch_npu.contrib.transfer_to_npu: makes scripts written for cuda use the npu."""

from __future__ import annotations

import torch

from gex.npu.devices import Devices
from gex.npu.namespace import Namespace

# PyTorch itself calls these to check whether it may use CUDA's libraries.
_ASKED_BY_TORCH = {"device_count", "init", "is_available", "is_bf16_supported", "is_initialized"}


def let_cuda_mean_npu(devices: Devices, npu: Namespace) -> None:
    """Without CUDA, "cuda" becomes another name of the npu; with CUDA nothing needs to change."""
    if not devices.is_cpu:
        return
    devices.names.add("cuda")
    torch.Tensor.cuda = torch.Tensor.npu
    torch.nn.Module.cuda = torch.nn.Module.npu
    for name in torch.cuda.__all__:
        if name in npu.__dict__ and name not in _ASKED_BY_TORCH:
            setattr(torch.cuda, name, npu.__dict__[name])
