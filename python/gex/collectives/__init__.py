"""Collectives of torch.distributed inside compiled graphs, without changes to the user's code.

Dynamo traces some of them in their simplest form. Here each gets a traceable form: one of PyTorch's
functional collectives, or an operator of gex if there is none, and a copy into the user's tensors.
`async_op=True` returns a Work whose `wait()` completes the operation.
"""

from __future__ import annotations

from gex.collectives import gathers, messages, reductions
from gex.collectives.tracing import trace_as

__all__ = ["install"]

_installed = False


def install() -> None:
    """Makes Dynamo trace the collectives; once per process."""
    global _installed
    import torch.distributed as dist

    if _installed or not dist.is_available():
        return
    _installed = True
    for module in (reductions, gathers, messages):
        for original, traced in module.forms().items():
            trace_as(original, traced)
