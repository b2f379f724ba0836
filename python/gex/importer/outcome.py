"""Statistics of an import: what the nodes of a graph became."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

DRAWN_BY_PYTORCH = "random numbers are drawn by PyTorch"
# Namespaces of collectives, which are calls into torch.distributed by design.
_COLLECTIVES = ("_c10d_functional.", "gex_messages.")


@dataclass(frozen=True)
class CallRecord:
    """A node that runs through PyTorch."""

    op: str
    reason: str
    location: str

    @property
    def is_of_user(self) -> bool:
        """Whether it is a custom operator, which may run anything."""
        return not self.op.startswith(("aten.", "prims.", "prim."))

    @property
    def is_fallback(self) -> bool:
        """Whether it is a call only because gex lacks a native op: not for random draws, whose
        numbers must be PyTorch's, nor for collectives."""
        return self.reason != DRAWN_BY_PYTORCH and not self.op.startswith(_COLLECTIVES)


@dataclass
class ImportOutcome:
    native: int = 0  # nodes that became ops of gex
    decomposed: int = 0  # nodes that became ops through a PyTorch decomposition
    calls: list[CallRecord] = field(default_factory=list)
    regions: Counter[str] = field(default_factory=Counter)  # calls of each nested region

    def count(self, inner: ImportOutcome) -> None:
        """Adds the native nodes of a nested graph."""
        self.native += inner.native
        self.decomposed += inner.decomposed
