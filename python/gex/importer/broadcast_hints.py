"""Operands of elementwise operators whose sizes tracing found equal to those of the result.

A size may be expressed in two ways: (s0 + 1)//2 and s1. As Dims they differ, and either might be 1
and be broadcast. PyTorch evaluated them while tracing, and guards the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from gex._gex import Importer, Type, Value
from gex.importer.symbols import Symbols
from gex.importer.tensor_types import DTYPES


@dataclass(frozen=True)
class SizedOperands:
    importer: Importer
    symbols: Symbols
    result: torch.Tensor  # the traced result
    location: str

    def like(self, source: Any, operand: Any) -> Any:
        """The operand of this node with the result's sizes wherever tracing found them not to be
        1."""
        fake = source.meta.get("val") if isinstance(source, Node) else None
        if not (isinstance(fake, torch.Tensor) and isinstance(operand, Value)):
            return operand
        aligned = self.result.shape[self.result.dim() - fake.dim() :]
        sizes = [to if _is_not_one(d) else d for d, to in zip(fake.shape, aligned)]
        type_ = Type(DTYPES[fake.dtype], self.symbols.dims(sizes), None)
        # The program checks at each run what `expand` assumes.
        arguments = [operand, type_.shape, False]
        values, _ = self.importer.add_node("aten.expand.default", arguments, [type_], self.location)
        return operand if values is None else values[0]


def _is_not_one(size: int | torch.SymInt) -> bool:
    if isinstance(size, int):
        return size != 1
    return size.node.has_hint() and size.node.hint != 1
