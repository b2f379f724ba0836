"""PyTorch's symbolic numbers: the functions in their expressions, and kinds of symbols."""

from __future__ import annotations

import sympy
from torch.utils._sympy import functions
from torch.utils._sympy.symbol import SymT, symbol_is_type

__all__ = ["functions", "is_backed_float", "is_float", "is_unbacked"]


def is_unbacked(symbol: sympy.Symbol) -> bool:
    """Whether its value is known only at run time."""
    return symbol_is_type(symbol, (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT))


def is_float(symbol: sympy.Symbol) -> bool:
    return symbol_is_type(symbol, (SymT.UNBACKED_FLOAT, SymT.FLOAT))


def is_backed_float(symbol: sympy.Symbol) -> bool:
    """Whether it is a float whose value the tracer knew."""
    return symbol_is_type(symbol, SymT.FLOAT)
