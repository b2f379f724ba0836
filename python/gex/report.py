"""What became of each graph: native steps, calls through PyTorch and why, in numbers and words."""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class CallRecord:
    """One node that runs through PyTorch."""

    op: str
    reason: str
    location: str


@dataclass
class GraphReport:
    """One compiled graph."""

    name: str
    backend: str
    native: int = 0  # nodes that became ops of gex
    decomposed: int = 0  # nodes that did so through a decomposition of PyTorch
    calls: list[CallRecord] = field(default_factory=list)
    eager_reason: str | None = None  # set if the whole graph runs through PyTorch
    runner: Any = None

    def count(self, inner: GraphReport) -> None:
        """Adds the native nodes of a graph inside this one."""
        self.native += inner.native
        self.decomposed += inner.decomposed

    @property
    def native_share(self) -> float:
        total = self.native + self.decomposed + len(self.calls)
        return 1.0 if total == 0 else (self.native + self.decomposed) / total

    def text(self) -> str:
        if self.eager_reason is not None:
            return f"{self.name}: runs through PyTorch as a whole: {self.eager_reason}"
        lines = [
            f"{self.name}: {self.native + self.decomposed} native nodes "
            f"({self.decomposed} by decomposition), {len(self.calls)} calls through PyTorch "
            f"({self.native_share:.1%} native)"
        ]
        grouped = Counter((c.op, c.reason) for c in self.calls)
        first = {(c.op, c.reason): c.location for c in reversed(self.calls)}
        for (op, reason), count in grouped.most_common():
            where = f", first at {first[op, reason]}" if first[op, reason] else ""
            lines.append(f"  call {op} x{count}: {reason}{where}")
        return "\n".join(lines)


_recent: deque[GraphReport] = deque(maxlen=256)


def add(report: GraphReport) -> None:
    _recent.append(report)


def reports() -> list[GraphReport]:
    """Reports of the graphs compiled last, oldest first."""
    return list(_recent)


@contextlib.contextmanager
def collect() -> Iterator[list[GraphReport]]:
    """Collects the reports of the graphs compiled inside the block."""
    collected: list[GraphReport] = []
    before = {id(r) for r in _recent}
    yield collected
    collected.extend(r for r in _recent if id(r) not in before)


@dataclass
class Explanation:
    graphs: list[GraphReport]

    @property
    def native_share(self) -> float:
        calls = sum(len(g.calls) for g in self.graphs)
        native = sum(g.native + g.decomposed for g in self.graphs)
        return 1.0 if native + calls == 0 else native / (native + calls)

    def __str__(self) -> str:
        return "\n".join(g.text() for g in self.graphs)


def explain(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Compiles `fn` with the gex backend, runs it once and tells what each graph became."""
    import torch

    with collect() as graphs:
        torch.compile(fn, backend="gex")(*args, **kwargs)
    return Explanation(graphs)
