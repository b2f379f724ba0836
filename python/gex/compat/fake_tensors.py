"""Fake tensors and the modes that see each operator call."""

from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

__all__ = [
    "FakeTensor",
    "FakeTensorMode",
    "TorchDispatchMode",
    "detect_fake_mode",
    "is_traceable_wrapper_subclass",
    "unset_fake_temporarily",
]
