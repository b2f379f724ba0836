"""Collectives of torch.distributed inside compiled graphs, with no change of the user's code.

Dynamo knows some of them in their simplest form. Here each gets a form that it can trace: one of
PyTorch's functional collectives, or an operator of ours where there is none, and a copy into the
tensors that the user gave. `async_op=True` gives a Work whose `wait()` ends the operation.
"""

from __future__ import annotations

from gex.collectives import gathers, messages, reductions
from gex.collectives.tracing import trace_as

__all__ = ["install"]

_installed = False


def install() -> None:
    """From now on Dynamo traces the collectives; once for the process."""
    global _installed
    import torch.distributed as dist

    if _installed or not dist.is_available():
        return
    _installed = True
    for module in (reductions, gathers, messages):
        for original, traced in module.forms().items():
            trace_as(original, traced)
