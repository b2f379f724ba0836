"""Reports on graphs: native steps, calls through PyTorch and why."""

from __future__ import annotations

import contextlib
import html
import re
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gex import _gex

if TYPE_CHECKING:
    from gex.dynamo.frame_origin import Origin
    from gex.importer.outcome import CallRecord, ImportOutcome


_KINDS = [
    ("contraction", "matmuls, convolutions or attention"),
    ("loop", "loops"),
    ("scatter", "scatters"),
    ("step", "other steps"),
]
_MOST_REASONS = 3  # why neighbours were not fused: the others are in a report


@dataclass
class StreamSummary:
    """Number of nodes per stream, their limits, and waits between streams."""

    nodes: Counter[str] = field(default_factory=Counter)  # "" is the stream of the caller
    waits: list[tuple[str, str]] = field(default_factory=list)
    limits: Counter[tuple[int, int]] = field(default_factory=Counter)  # AI and vector cores

    @property
    def side(self) -> list[str]:
        return [stream for stream in self.nodes if stream]


@dataclass(eq=False)
class GraphReport:
    """One compiled graph."""

    name: str
    backend: str
    native: int = 0  # nodes that became ops of gex
    decomposed: int = 0  # nodes that became ops through a PyTorch decomposition
    calls: list[CallRecord] = field(default_factory=list)
    eager_reason: str | None = None  # set if the whole graph runs through PyTorch
    eager_asked_for: bool = False  # by the backend or an option
    regions: Counter[str] = field(default_factory=Counter)  # calls of each nested region
    notes: list[str] = field(default_factory=list)  # about options without full effect
    no_regions: list[str] = field(
        default_factory=list
    )  # repeated blocks that are not regions, and why
    seconds: dict[str, float] = field(default_factory=dict)  # dynamo, aot, import; see `times`
    streams: StreamSummary = field(default_factory=StreamSummary)
    capture_limit: int | None = None
    origin: Origin | None = None  # the function it belongs to
    end: str | None = None  # where and why it ends before that function does
    input_names: dict[int, str] = field(default_factory=dict)  # inputs in capture keys
    _runner: Callable[[], Any] | None = None  # a weak reference

    @property
    def runner(self) -> Any:
        """What runs the graph; None before it is made and after it was deleted.

        A report keeps no code or memory of a deleted function alive.
        """
        return None if self._runner is None else self._runner()

    @runner.setter
    def runner(self, runner: Any) -> None:
        self._runner = None if runner is None else weakref.ref(runner)

    @property
    def is_gone(self) -> bool:
        """Whether there was a runner and it was deleted."""
        return self._runner is not None and self._runner() is None

    def take(self, outcome: ImportOutcome) -> None:
        """Records what the nodes became in the import."""
        self.native, self.decomposed = outcome.native, outcome.decomposed
        self.calls, self.regions = list(outcome.calls), Counter(outcome.regions)

    @property
    def times(self) -> dict[str, float]:
        """Seconds spent on this graph by stage, in order; shared time counts for the first
        graph."""
        compiled = dict(self.runner.seconds) if self.runner is not None else {}
        program = compiled.get("program", 0.0) + compiled.get("session", 0.0)
        return {
            "dynamo": self.seconds.get("dynamo", 0.0),
            "aot": self.seconds.get("aot", 0.0),
            "import": self.seconds.get("import", 0.0),
            "passes": compiled.get("passes", 0.0),
            "fuse": compiled.get("fuse", 0.0),
            "code": compiled.get("code", 0.0),
            "plan": program + self.capture_seconds,
        }

    @property
    def capture_seconds(self) -> float:
        """Time spent on planning for new sizes during calls."""
        return 0.0 if self.runner is None else self.runner.counters.get("plan_ns", 0) / 1e9

    @property
    def native_share(self) -> float:
        total = self.native + self.decomposed + len(self.calls)
        return 1.0 if total == 0 else (self.native + self.decomposed) / total

    @property
    def missed_in_place(self) -> tuple[int, int]:
        """Copies made because a call writes a tensor whose old contents are read later: count
        and bytes."""
        counters = self.runner.counters if self.runner is not None else {}
        name = "not_in_place"
        return counters.get(f"copies.{name}", 0), counters.get(f"copied_bytes.{name}", 0)

    def _captures(self) -> list[str]:
        """Captures by sizes, and their reasons; the least recently used first."""
        captures = self.runner.captures if self.runner is not None else []
        if not captures:
            return []
        counters = self.runner.counters
        limit = f" of at most {self.capture_limit}" if self.capture_limit else ""
        held = f"{len(captures)} held{limit}"
        made = f"{counters['captures']} made, {counters['evictions']} dropped"
        lines = [f"  captures: {held}, {made}, {counters['replays']} replays"]
        for capture in captures:
            about = f"{capture['hits']} calls, {capture['arena_bytes']} bytes"
            sizes = capture["key"] or "fixed sizes"
            lines.append(f"    {sizes}: {about}: {capture['reason']}")
            if capture["note"]:
                lines.append(f"      {capture['note']}")
        return lines + self._named_inputs(captures)

    def _named_inputs(self, captures: list[dict[str, Any]]) -> list[str]:
        """The user's names of the inputs that reasons mention."""
        reasons = " ".join(capture["reason"] for capture in captures)
        mentioned = sorted({int(k) for k in re.findall(r"input (\d+)", reasons)})
        return [
            f"    input {k} is {self.input_names[k]}" for k in mentioned if k in self.input_names
        ]

    def _kernels(self) -> list[str]:
        """What fusion made, and the most frequent reasons why neighbours are two launches."""
        if self.runner is None:
            return []
        kinds = Counter(kind for kind, _, _ in _gex.fused_units(self.runner))
        shown = [f"{kinds[kind]} {words}" for kind, words in _KINDS if kinds[kind]]
        lines = [f"  fused into {kinds.total()} kernels: {', '.join(shown)}"] if shown else []
        # "not fused: NODE: not fused with NEIGHBOUR: REASON"; a reason may have colons, too.
        reasons = Counter(
            re.sub(r"^not fused with [^:]*: ", "", remark.split(": ", 2)[2])
            for remark in self.runner.remarks
            if remark.startswith("not fused: ")
        )
        for reason, count in reasons.most_common(_MOST_REASONS):
            lines.append(f"  not fused x{count}: {reason}")
        return lines

    def _streams(self) -> list[str]:
        """Side streams: number of nodes, waits between streams due to events, and whether
        independent branches overlap."""
        remarks = self.runner.remarks if self.runner is not None else []
        return (
            [f"  {remark}" for remark in remarks if remark.startswith("branches ")]
            + [
                f"  stream {stream}: {self.streams.nodes[stream]} nodes, joined before the results"
                for stream in self.streams.side
            ]
            + [
                f"  stream {waiting or 'of the caller'} waits for {awaited or 'that of the caller'}"
                for waiting, awaited in self.streams.waits
            ]
        )

    def _limits(self) -> list[str]:
        return [
            f"  core limit ({aicores}, {vectorcores}): {count} nodes"
            for (aicores, vectorcores), count in self.streams.limits.items()
        ]

    def text(self) -> str:
        if self.eager_reason is not None:
            return f"{self.name}: runs through PyTorch as a whole: {self.eager_reason}"
        lines = [
            f"{self.name}: {self.native + self.decomposed} native nodes "
            f"({self.decomposed} by decomposition), {len(self.calls)} calls through PyTorch "
            f"({self.native_share:.1%} native)"
        ]
        if self.origin is not None:
            lines.append(f"  of {self.origin.text()}")
            if self.origin.recompile_reason is not None:
                lines.append(f"  compiled again because {self.origin.recompile_reason.strip()}")
        if self.end is not None:
            lines.append(f"  ends at {self.end}")
        for region, count in self.regions.items():
            lines.append(f"  region {region} x{count}: traced once")
        lines += [f"  no region: {why}" for why in self.no_regions]
        lines += [f"  note: {note}" for note in self.notes]
        grouped = Counter((c.op, c.reason) for c in self.calls)
        first = {(c.op, c.reason): c.location for c in reversed(self.calls)}
        for (op, reason), count in grouped.most_common():
            where = f", first at {first[op, reason]}" if first[op, reason] else ""
            lines.append(f"  call {op} x{count}: {reason}{where}")
        lines += self._kernels() + self._streams() + self._limits()
        missed, missed_bytes = self.missed_in_place
        if missed:
            lines.append(f"  not in place: {missed} tensors copied, {missed_bytes} bytes")
        lines += self._captures()
        if self.runner is not None:
            lines += [f"  decided by the host: {why}" for why in self.runner.host_control]
            lines += [f"  tuned: {finding}" for finding in self.runner.tuned]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text())}</pre>"


_recent: deque[GraphReport] = deque(maxlen=256)


def add(report: GraphReport) -> None:
    _recent.append(report)


def drop(report: GraphReport) -> None:
    """Removes a graph that is compiled again in another form."""
    with contextlib.suppress(ValueError):
        _recent.remove(report)


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
