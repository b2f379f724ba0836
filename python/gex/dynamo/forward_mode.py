"""Forward-mode AD (torch.autograd.forward_ad): tensors may have tangents."""

from __future__ import annotations

from gex.compat.autograd import is_forward_mode_on
from gex.compat.tracing import guard_forward_mode, is_tracing


def is_on() -> bool:
    return is_forward_mode_on()


def guard() -> None:
    """Makes Dynamo keep graphs compiled inside forward mode separate from others."""
    if is_tracing():
        guard_forward_mode()
