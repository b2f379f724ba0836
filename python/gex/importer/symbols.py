"""PyTorch's symbolic integers (sympy expressions of a ShapeEnv) as gex Dims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy
import torch

from gex._gex import Dim
from gex.compat.symbolic import functions as fn
from gex.compat.symbolic import is_unbacked
from gex.errors import GraphNotSupported


class NotADim(GraphNotSupported):
    """The expression can't be expressed as a Dim (floats, conditions, ...)."""


class Symbols:
    """Makes Dims of the symbols of one ShapeEnv; equal expressions give equal Dims."""

    def __init__(self, shape_env: Any, ranges: Mapping[sympy.Symbol, Any] | None = None) -> None:
        """`ranges` are those promised to callers: they may be wider than the traced ones."""
        self._shape_env = shape_env
        self._ranges = ranges or {}
        self._symbols: dict[sympy.Symbol, Dim] = {}

    def dim(self, value: int | torch.SymInt) -> Dim:
        if isinstance(value, torch.SymInt):
            return self.of_expr(value.node.expr)
        return Dim(int(value))

    def dims(self, values: Any) -> list[Dim]:
        return [self.dim(v) for v in values]

    def symbol(self, symbol: sympy.Symbol) -> Dim:
        known = self._symbols.get(symbol)
        if known is None:
            low, high = self._range(symbol)
            known = self._symbols[symbol] = Dim.symbol(symbol.name, low, high)
        return known

    def _range(self, symbol: sympy.Symbol) -> tuple[int | None, int | None]:
        bounds = self._ranges.get(symbol)
        if bounds is None and self._shape_env:
            bounds = self._shape_env.var_to_range.get(symbol)
        if bounds is None:
            return None, None
        low = int(bounds.lower) if bounds.lower.is_Integer else None
        # Upper bounds of data-dependent sizes are hints (masked_select's is wrong when it
        # broadcasts); the user's assertions are separate nodes.
        if is_unbacked(symbol):
            return low, None
        return low, int(bounds.upper) if bounds.upper.is_Integer else None

    def implied(self, condition: sympy.Basic) -> bool:
        """Whether a condition on sizes follows from the ranges of its symbols."""
        if not isinstance(condition, sympy.core.relational.Relational):
            return condition == sympy.true
        try:
            left, right = (self.of_expr(side) for side in condition.args)
        except NotADim:
            return False
        if isinstance(condition, sympy.Eq):
            return left == right
        if isinstance(condition, sympy.Ne):
            return (left - right).low > 0 or (right - left).low > 0
        if isinstance(condition, (sympy.Le, sympy.Lt)):
            left, right = right, left
        return (left - right).low >= isinstance(condition, (sympy.Gt, sympy.Lt))

    def of_expr(self, expr: sympy.Basic) -> Dim:
        if isinstance(expr, (sympy.Integer, int)):
            return Dim(int(expr))
        if isinstance(expr, sympy.Symbol):
            return self.symbol(expr)
        convert = _CONVERTERS.get(type(expr))
        if convert is None:
            raise NotADim(f"{type(expr).__name__} in {expr}")
        return convert(self, expr)


def _add(s: Symbols, e: sympy.Basic) -> Dim:
    total = Dim(0)
    for arg in e.args:
        total = total + s.of_expr(arg)
    return total


def _mul(s: Symbols, e: sympy.Basic) -> Dim:
    # sympy writes n/d as a product with a rational factor; the quotient is exact here.
    numerator, denominator = e.as_numer_denom()
    if denominator != 1:
        return s.of_expr(numerator) // s.of_expr(denominator)
    total = Dim(1)
    for arg in e.args:
        total = total * s.of_expr(arg)
    return total


def _pow(s: Symbols, e: sympy.Basic) -> Dim:
    base, exponent = e.args
    if not (exponent.is_Integer and 0 <= int(exponent) <= 8):
        raise NotADim(f"power in {e}")
    total = Dim(1)
    for _ in range(int(exponent)):
        total = total * s.of_expr(base)
    return total


def _floordiv(s: Symbols, e: sympy.Basic) -> Dim:
    return s.of_expr(e.args[0]) // s.of_expr(e.args[1])


def _ceildiv(s: Symbols, e: sympy.Basic) -> Dim:
    divisor = s.of_expr(e.args[1])
    return (s.of_expr(e.args[0]) + divisor - Dim(1)) // divisor


def _mod(s: Symbols, e: sympy.Basic) -> Dim:
    return s.of_expr(e.args[0]) % s.of_expr(e.args[1])


def _modular_indexing(s: Symbols, e: sympy.Basic) -> Dim:
    base, divisor, modulus = (s.of_expr(a) for a in e.args)
    return (base // divisor) % modulus


def _max(s: Symbols, e: sympy.Basic) -> Dim:
    first, *rest = (s.of_expr(a) for a in e.args)
    for other in rest:
        first = Dim.max(first, other)
    return first


def _min(s: Symbols, e: sympy.Basic) -> Dim:
    first, *rest = (s.of_expr(a) for a in e.args)
    for other in rest:
        first = Dim.min(first, other)
    return first


def _identity(s: Symbols, e: sympy.Basic) -> Dim:
    return s.of_expr(e.args[0])


def _floor_of(s: Symbols, e: sympy.Basic) -> Dim:
    inner = e.args[0]
    half_power = isinstance(inner, fn.FloatPow) and inner.args[1] == 0.5
    if half_power or isinstance(inner, fn.OpaqueUnaryFn_sqrt):
        return _root_of_square(s, inner)
    numerator, denominator = _ratio(s, inner)
    return numerator // denominator


def _root_of_square(s: Symbols, e: sympy.Basic) -> Dim:
    """int(n**0.5) for a square of a size: the side of an image that was flattened to a sequence."""
    inner = e.args[0].args[0] if isinstance(e.args[0], fn.ToFloat) else e.args[0]
    if isinstance(inner, (sympy.Pow, fn.PowByNatural)) and inner.args[1] == 2:
        return s.of_expr(inner.args[0])
    raise NotADim(f"the square root of {inner}")


def _ceil_of(s: Symbols, e: sympy.Basic) -> Dim:
    numerator, denominator = _ratio(s, e.args[0])
    return (numerator + denominator - Dim(1)) // denominator


def _ratio(s: Symbols, e: sympy.Basic) -> tuple[Dim, Dim]:
    """A float expression of sizes as an exact quotient: only forms whose f64 arithmetic does not
    round across an integer. Sums and products of binary fractions are exact, with one division
    at the end."""
    if isinstance(e, (fn.IntTrueDiv, fn.FloatTrueDiv)):
        above, below = (_binary_fraction(s, a) for a in e.args)
        numerator, denominator = above[0] * Dim(below[1]), below[0] * Dim(above[1])
        sign = Dim(-1 if (denominator.constant or 1) < 0 else 1)
        return numerator * sign, denominator * sign
    numerator, power = _binary_fraction(s, e)
    return numerator, Dim(power)


def _binary_fraction(s: Symbols, e: sympy.Basic) -> tuple[Dim, int]:
    """Of the form n / 2**k."""
    if isinstance(e, (sympy.Float, sympy.Integer)):
        above, below = float(e).as_integer_ratio()
        if below > 1 << 20:
            raise NotADim(f"{e} in a size")
        return Dim(above), below
    if isinstance(e, fn.ToFloat):
        return s.of_expr(e.args[0]), 1
    if isinstance(e, (sympy.Add, sympy.Mul)) and e.has(fn.ToFloat, sympy.Float):
        (total, denominator), *rest = (_binary_fraction(s, a) for a in e.args)
        for numerator, other in rest:
            if isinstance(e, sympy.Mul):
                total = total * numerator
            else:
                total = total * Dim(other) + numerator * Dim(denominator)
            denominator *= other
        return total, denominator
    return s.of_expr(e), 1


_CONVERTERS: dict[type, Any] = {
    sympy.Add: _add,
    sympy.Mul: _mul,
    sympy.Pow: _pow,
    fn.PowByNatural: _pow,
    fn.FloorDiv: _floordiv,
    fn.CleanDiv: _floordiv,
    fn.CeilDiv: _ceildiv,
    fn.Mod: _mod,
    fn.PythonMod: _mod,
    sympy.Mod: _mod,
    fn.ModularIndexing: _modular_indexing,
    fn.Max: _max,
    fn.Min: _min,
    sympy.Max: _max,
    sympy.Min: _min,
    fn.Identity: _identity,
    fn.FloorToInt: _floor_of,
    fn.TruncToInt: _floor_of,
    fn.CeilToInt: _ceil_of,
}
