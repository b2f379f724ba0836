"""The outcome of each unit of each part in one JSON file, and the tables made from it.

A unit is one test, one operator with a dtype, or one model. Its record names the sources that it
was run with, so that a run can continue where another one stopped.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
# Outcomes that are not failures. "call": right, with calls through PyTorch. "left out": PyTorch
# itself can't run or trace it, or a test says why it does not apply.
GOOD = ("right", "decomposed", "call", "left out")
_ORDER = (*GOOD, "wrong", "error", "crash", "time-out")
_SOURCES = ("src", "include", "python", "tests/gpu", "tests/python", "CMakeLists.txt")
_SUFFIXES = (".cpp", ".hpp", ".h", ".py", ".txt", ".in", ".cmake", "")


@dataclass
class Record:
    part: str
    unit: str
    outcome: str
    detail: str = ""
    seconds: float = 0.0
    sources: str = ""
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        return self.outcome in GOOD


def digest_of_sources() -> str:
    """The same on every machine with the same sources."""
    digest = hashlib.sha256()
    for name in _SOURCES:
        top = ROOT / name
        files = sorted(top.rglob("*")) if top.is_dir() else [top]
        for file in files:
            if file.is_file() and file.suffix in _SUFFIXES:
                digest.update(str(file.relative_to(ROOT)).encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


class Results:
    """The records of a file, the latest of each unit; written after every few units."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sources = digest_of_sources()
        self.machine = ""
        self._lock = threading.Lock()
        self._records: dict[tuple[str, str], Record] = {}
        self._written = 0.0
        if path.exists():
            data = json.loads(path.read_text())
            self.machine = data.get("machine", "")
            for entry in data["records"]:
                record = Record(**entry)
                self._records[record.part, record.unit] = record

    def add(self, record: Record) -> None:
        record.sources = self.sources
        with self._lock:
            self._records[record.part, record.unit] = record
            if time.monotonic() - self._written > 2:
                self._write()

    def write(self) -> None:
        with self._lock:
            self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        data = {
            "sources": self.sources,
            "machine": self.machine,
            "records": [asdict(record) for record in self._records.values()],
        }
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(data, indent=1))
        new.replace(self.path)

    def of(self, part: str) -> list[Record]:
        return [record for record in self._records.values() if record.part == part]

    def get(self, part: str, unit: str) -> Record | None:
        return self._records.get((part, unit))

    def is_done(self, part: str, unit: str) -> bool:
        """Whether it already ran with these sources, with any outcome."""
        record = self.get(part, unit)
        return record is not None and record.sources == self.sources

    def forget(self, part: str, units: set[str]) -> None:
        """Drops records of units that no longer exist."""
        with self._lock:
            for record in self.of(part):
                if record.unit not in units:
                    del self._records[record.part, record.unit]

    def failures(self, part: str) -> list[Record]:
        return [record for record in self.of(part) if not record.good]


def _one_line(text: str, length: int) -> str:
    return " ".join(text.split()).replace("|", "/")[:length]


def summary_line(results: Results, part: str) -> str:
    records = results.of(part)
    counts = Counter(record.outcome for record in records)
    text = ", ".join(f"{counts[o]} {o}" for o in _ORDER if counts[o])
    stale = sum(record.sources != results.sources for record in records)
    return text + (f" ({stale} of them with other sources)" if stale else "")


def markdown(results: Results, parts: list[str]) -> str:
    """The table of parts, then what failed, then figures by part."""
    lines = ["# GPU tests", "", f"{results.machine}, sources {results.sources}.", ""]
    lines += ["| part | units | outcome | seconds |", "|---|---|---|---|"]
    for part in parts:
        records = results.of(part)
        seconds = sum(record.seconds for record in records)
        outcome = summary_line(results, part) or "not run"
        lines.append(f"| {part} | {len(records)} | {outcome} | {seconds:.0f} |")
    failures = [record for part in parts for record in results.failures(part)]
    if failures:
        lines += ["", "## Failures", "", "| part | unit | outcome | why |", "|---|---|---|---|"]
    for record in failures:
        detail = _one_line(record.detail, 300)
        lines.append(f"| {record.part} | {record.unit} | {record.outcome} | {detail} |")
    for part in parts:
        lines += _figures(part, results.of(part))
    lines += _calls([record for part in parts for record in results.of(part)])
    return "\n".join(lines) + "\n"


def _figures(part: str, records: list[Record]) -> list[str]:
    """A line for each unit that has figures of its own."""
    names = list(dict.fromkeys(name for r in records for name in r.figures if name != "calls"))
    if not names or part.startswith("opinfo"):
        return []
    heads = ["unit", "outcome", *names]
    lines = ["", f"## {part}", "", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for record in records:
        if record.figures:
            cells = [str(record.figures.get(name, "")) for name in names]
            lines.append(f"| {record.unit} | {record.outcome} | {' | '.join(cells)} |")
    return lines


def _calls(records: list[Record]) -> list[str]:
    """Calls through PyTorch with their reasons, the most frequent first."""
    counts: Counter[str] = Counter()
    for record in records:
        counts.update(record.figures.get("calls", {}))
    if not counts:
        return []
    lines = ["", "## Calls through PyTorch", "", "| op and reason | units |", "|---|---|"]
    return lines + [f"| {_one_line(text, 200)} | {n} |" for text, n in counts.most_common()]
