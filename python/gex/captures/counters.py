"""torch._dynamo.utils.counters["npugraph_ex"]: read from the engine on access."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from gex import report
from gex.compat import dynamo

_BACKEND = "npugraph_ex"
# Addresses are patched at each call, so this never causes a recapture.
_NO_RECAPTURE = ("recapture_due_to_mutated_input_change",)
_OF_THE_ENGINE = {
    "recapture_due_to_force_recapture": "recaptures",
    "recapture_due_to_global_limit_core_change": "limit_recaptures",
    "replays": "replays",
    "uncaptured": "uncaptured",
    "evictions": "evictions",
    "bytes_copied": "bytes_copied",
    "pool_bytes": "pool_bytes",
    "calls_through_pytorch": "host_calls",
}
_NO_EVENTS = ("captured", "pool_bytes")  # current values; the others accumulate


def _graphs() -> list[report.GraphReport]:
    return [g for g in report.reports() if g.backend == _BACKEND and not g.is_gone]


def _counts_of(graph: report.GraphReport) -> dict[str, int]:
    runner = graph.runner
    counters = {} if runner is None else runner.counters
    counts = {f"captured_{graph.name}": 0 if runner is None else len(runner.captures)}
    for name in _NO_RECAPTURE:
        counts[f"{name}_{graph.name}"] = 0
    for name, source in _OF_THE_ENGINE.items():
        counts[f"{name}_{graph.name}"] = counters.get(source, 0)
    return counts


class EngineCounters(Counter):
    """A Counter whose contents are the engine's counts since it was last cleared."""

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[str, int] = {}
        self._left_out: set[str] = set()  # graphs that are listed after their next event

    def _read(self) -> EngineCounters:
        dict.clear(self)
        for graph in _graphs():
            counts = _counts_of(graph)
            new = {name: count - self._before.get(name, 0) for name, count in counts.items()}
            if graph.name in self._left_out:
                if not any(c for name, c in new.items() if not name.startswith(_NO_EVENTS)):
                    continue
                self._left_out.remove(graph.name)
            dict.update(self, new)
        return self

    def clear(self) -> None:
        self._before = {
            name: count
            for graph in _graphs()
            for name, count in _counts_of(graph).items()
            if not name.startswith(_NO_EVENTS)
        }

    def leave_out_old_graphs(self) -> None:
        """The state after all of PyTorch's counters were cleared, including this one."""
        self.clear()
        self._left_out = {graph.name for graph in _graphs()}

    def __getitem__(self, name: str) -> int:
        return dict.get(self._read(), name, 0)

    def get(self, name: str, default: Any = None) -> Any:
        return dict.get(self._read(), name, default)

    def __contains__(self, name: object) -> bool:
        return dict.__contains__(self._read(), name)

    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self._read())

    def __len__(self) -> int:
        return dict.__len__(self._read())

    def __repr__(self) -> str:
        return repr(dict(self.items()))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Counter, (dict(self.items()),)

    def keys(self) -> Any:
        return dict.keys(self._read())

    def values(self) -> Any:
        return dict.values(self._read())

    def items(self) -> Any:
        return dict.items(self._read())

    def copy(self) -> Counter[str]:  # type: ignore[override]  # a snapshot
        return Counter(dict(self.items()))


def install() -> None:
    """Installs the counters in PyTorch's dictionary, from which they may have been cleared."""
    counters = dynamo.counters()
    if not isinstance(counters.get(_BACKEND), EngineCounters):
        counters[_BACKEND] = EngineCounters()
        counters[_BACKEND].leave_out_old_graphs()
