"""The table of docs/zoo.md: the result of each model, as far as it was run."""

from __future__ import annotations

from pathlib import Path

from zoo import harness, records
from zoo.families import FAMILIES
from zoo.model import Model

PAGE = Path(__file__).resolve().parents[3] / "docs" / "zoo.md"
_BEGIN, _END = "<!-- table -->", "<!-- end of table -->"
_MODES = harness.MODES


def write() -> None:
    """Puts the records into the table; cells of runs without a record stay."""
    before, rest = PAGE.read_text().split(_BEGIN)
    old, after = rest.split(_END)
    PAGE.write_text(f"{before}{_BEGIN}\n{_table(_cells(old))}{_END}{after}")


def _cells(table: str) -> dict[tuple[str, str], str]:
    """The cells of a table as it stands, by model and mode."""
    cells = {}
    for line in table.splitlines():
        name, *row = [cell.strip() for cell in line.strip("|").split("|")]
        if len(row) == len(_MODES) + 1:
            cells |= {(name, mode): cell for mode, cell in zip(_MODES, row[1:])}
    return cells


def _table(old: dict[tuple[str, str], str]) -> str:
    found = records.latest()
    heads = ["model", "family", *_MODES]
    lines = [_line(heads), "|" + "---|" * len(heads)]
    cells: dict[tuple[str, str], str] = {}
    for family, models in FAMILIES.items():
        for name, model in models.items():
            for mode in _MODES:
                kept = old.get((name, mode), "")
                cells[name, mode] = _cell(model, mode, found.get((name, mode)), kept)
            lines.append(_line([name, family, *(cells[name, mode] for mode in _MODES)]))
    counts = [str(sum(cells[k].startswith("ok") for k in cells if k[1] == mode)) for mode in _MODES]
    lines.append(_line(["**ok**", "", *counts]))
    return "\n".join(lines) + "\n"


def _cell(model: Model, mode: str, record: records.Record | None, kept: str) -> str:
    if mode in model.cannot:
        return f"no: {model.cannot[mode]}"
    if mode not in harness.modes(model):
        return "-"
    if record is None:
        return kept if kept.startswith("ok") else "not run"
    if not record.passed:
        return "FAILED: " + record.failure.replace("|", "/")[:80]
    calls = sum(record.calls.values())
    words = ["ok"]
    words += [f"{record.graphs} graphs"] if model.breaks else []
    words += ["compiled again for another batch size"] if record.recompiled else []
    words += [f"{calls} call" + "s" * (calls > 1)] if calls else []
    return ", ".join(words)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
