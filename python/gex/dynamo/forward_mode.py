"""Forward-mode gradients (torch.autograd.forward_ad): tensors may have tangents with them."""

from __future__ import annotations

from gex.compat.autograd import is_forward_mode_on
from gex.compat.tracing import guard_forward_mode, is_tracing


def is_on() -> bool:
    return is_forward_mode_on()


def guard() -> None:
    """Has Dynamo keep what is compiled inside of forward mode apart from the rest."""
    if is_tracing():
        guard_forward_mode()
