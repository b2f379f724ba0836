"""Environment variables that switch something on or off."""

from __future__ import annotations

import os

from gex._gex import UserError


def is_on(variable: str) -> bool:
    """Whether the variable is 1. Unset, empty and 0 are off; other values are errors."""
    value = os.environ.get(variable, "")
    if value not in ("", "0", "1"):
        raise UserError(f"{variable} is {value!r}: must be 0 or 1")
    return value == "1"
