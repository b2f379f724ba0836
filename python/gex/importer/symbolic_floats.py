"""Symbolic floats (a ratio of sizes, a number read from a tensor) as 0-d f64 values of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sympy
import torch

from gex._gex import DType, Importer, Type, Value
from gex.compat.symbolic import functions as fn
from gex.importer.symbols import NotADim, Symbols
from gex.importer.tensor_types import DTYPES

_F64 = DTYPES[torch.float64]
_OVERLOADS: dict[type, str] = {
    sympy.Add: "aten.add.Tensor",
    sympy.Mul: "aten.mul.Tensor",
    sympy.Pow: "aten.pow.Tensor_Tensor",
    fn.FloatPow: "aten.pow.Tensor_Tensor",
    fn.FloatTrueDiv: "aten.div.Tensor",
    fn.IntTrueDiv: "aten.div.Tensor",
    fn.OpaqueUnaryFn_sqrt: "aten.sqrt.default",
}
_CHAINS = (sympy.Add, sympy.Mul)


@dataclass(frozen=True)
class FloatValues:
    importer: Importer
    symbols: Symbols
    tensors: Mapping[sympy.Symbol, Value]  # the tensors that floats were read from
    location: str

    def of(self, expr: sympy.Basic) -> Value | float:
        """Raises NotADim if the expression has no native form."""
        if expr in self.tensors:
            return self.cast(self.tensors[expr], _F64)
        if expr.is_number:
            return float(expr)
        if isinstance(expr, fn.ToFloat):
            return self.of(expr.args[0])
        overload = _OVERLOADS.get(type(expr))
        if overload is None or (isinstance(expr, _CHAINS) and expr.is_integer):
            return self.cast(self.importer.add_dim(self.symbols.of_expr(expr)), _F64)
        operands = [self.of(argument) for argument in expr.args]
        if not isinstance(expr, _CHAINS):
            return self._op(overload, *operands)
        more = [1] if isinstance(expr, sympy.Add) else []  # add's factor
        total = operands[0]
        for operand in operands[1:]:
            total = self._op(overload, total, operand, *more)
        return total

    def cast(self, value: Value | float, dtype: DType) -> Value:
        arguments = (value, dtype, None, None, None, False, None)
        return self._op("aten._to_copy.default", *arguments, dtype=dtype)

    def _op(self, overload: str, *arguments: Any, dtype: DType = _F64) -> Value:
        result = Type(dtype, [], None)
        values, reason = self.importer.add_node(overload, list(arguments), [result], self.location)
        if values is None:
            raise NotADim(f"a float of sizes: {reason}")
        return values[0]
