"""Forward-mode gradients (torch.autograd.forward_ad): tensors may have tangents with them."""

from __future__ import annotations

import torch
from torch.autograd import forward_ad


def is_on() -> bool:
    return forward_ad._current_level >= 0


def guard() -> None:
    """Has Dynamo keep what is compiled inside of forward mode apart from the rest."""
    if torch._guards.TracingContext.try_get() is None:
        return
    from torch._dynamo.guards import GuardBuilder, install_guard
    from torch._dynamo.source import GlobalStateSource

    install_guard(GlobalStateSource().make_guard(GuardBuilder.DUAL_LEVEL))
