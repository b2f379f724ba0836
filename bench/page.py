"""Writes docs/performance.md and the plots of docs/plots from docs/performance.json.

--text writes only the page: plots need matplotlib. --check writes nothing and fails if the page or
a plot is out of date.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import sys
from pathlib import Path
from typing import Any

from plots import draw, figure
from results import RESULTS, load

ORIGIN = ("date", "commit", "machine", "command")


def ratio(row: dict[str, Any], ours: str, peer: str, smaller: bool) -> str:
    a, b = row["values"].get(ours), row["values"].get(peer)
    if not a or not b:
        return ""
    return f"{b / a if smaller else a / b:.2f}x"


def common(rows: list[dict[str, Any]], field: str) -> str | None:
    """The value of this field if all rows have the same, else None."""
    values = {row[field] for row in rows}
    return values.pop() if len(values) == 1 else None


def table(entry: dict[str, Any]) -> list[str]:
    rows, columns = entry["rows"], entry["columns"]
    smaller = entry.get("smaller_is_better", True)
    peers = [c for c in entry.get("peers", []) if c in columns]
    limits = any("limit" in row for row in rows)
    own = [f for f in ("date", "commit") if common(rows, f) is None]
    heads = [f"{entry['what']} ({entry['unit']})", *columns, *[f"over {p}" for p in peers]]
    heads += [f"limit ({entry.get('limit')})"] * limits + own
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    notes: list[str] = []
    for row in rows:
        present = [v for c in columns if (v := row["values"].get(c)) is not None]
        best = (min if smaller else max)(present) if peers and len(present) > 1 else None
        cells = []
        for column in columns:
            value = row["values"].get(column)
            text = figure(value)
            cells.append(f"**{text}**" if best is not None and value == best else text)
        cells += [ratio(row, entry["ours"], p, smaller) for p in peers]
        cells += [figure(row.get("limit"))] * limits + [row[f] for f in own]
        mark = ""
        if "note" in row:
            notes.append(row["note"])
            mark = f" [{len(notes)}]"
        lines.append(f"| {row['name']}{mark} | {' | '.join(cells)} |")
    lines += [""] + [f"[{i}] {note}  " for i, note in enumerate(notes, 1)] + [""] * bool(notes)
    return lines


def section(key: str, entry: dict[str, Any]) -> list[str]:
    rows = entry["rows"]
    better = "less" if entry.get("smaller_is_better", True) else "more"
    lines = [f"## {entry['title']}", "", entry["about"], ""]
    lines.append(f"- figures: {entry['unit']}; {better} is better")
    for field in ORIGIN:
        value = common(rows, field)
        if value is not None:
            lines.append(f"- {field}: " + (f"`{value}`" if field == "command" else value))
        elif field in ("machine", "command"):
            every = dict.fromkeys(row[field] for row in rows)
            shown = (f"`{v}`" if field == "command" else v for v in every)
            lines.append(f"- {field}s: " + "; ".join(shown))
    lines += ["", *table(entry), f"![{entry['title']}](plots/{key}.png)", ""]
    return lines


def page(results: dict[str, Any]) -> str:
    lines = [
        "# Measurements",
        "",
        "<!-- Written by `python bench/page.py` from performance.json: edit that file. -->",
        "",
        results["about"],
        "",
    ]
    for entry in results["subjects"].values():
        anchor = "".join(c for c in entry["title"].lower() if c.isalnum() or c in " -")
        lines.append(f"- [{entry['title']}](#{anchor.replace(' ', '-')})")
    lines.append("")
    for key, entry in results["subjects"].items():
        lines += section(key, entry)
    return "\n".join(lines).rstrip() + "\n"


def digest(entry: dict[str, Any]) -> str:
    """Digest of the data of a plot. It is stored in the image, so that an outdated plot is found
    without drawing it."""
    shown = [entry["title"], entry["unit"], entry["columns"], entry.get("log", False)]
    shown.append([[row["name"], row["values"], row.get("limit")] for row in entry["rows"]])
    return hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()[:16]


def text_of_png(path: Path) -> dict[str, str]:
    """The tEXt chunks of an image."""
    data = path.read_bytes()
    found, at = {}, 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"tEXt":
            name, _, text = data[at + 8 : at + 8 + size].partition(b"\0")
            found[name.decode("latin-1")] = text.decode("latin-1")
        at += 12 + size
    return found


def is_current(path: Path, entry: dict[str, Any]) -> bool:
    return path.is_file() and text_of_png(path).get("gex-data") == digest(entry)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--text", action="store_true", help="write the page, no plots")
    parser.add_argument(
        "--check", action="store_true", help="write nothing, fail if it is out of date"
    )
    arguments = parser.parse_args()
    results = load(arguments.results)
    target = arguments.results.with_suffix(".md")
    plots = arguments.results.parent / "plots"
    old = [k for k, e in results["subjects"].items() if not is_current(plots / f"{k}.png", e)]
    if arguments.check:
        wrong = [f"{plots / key}.png" for key in old]
        if not target.is_file() or target.read_text() != page(results):
            wrong.append(str(target))
        for path in wrong:
            print(f"{path} is out of date with {arguments.results}: run python bench/page.py")
        return 1 if wrong else 0
    target.write_text(page(results))
    if not arguments.text:
        try:
            for key in old:
                entry = results["subjects"][key]
                draw(plots / f"{key}.png", entry, {"gex-data": digest(entry)})
        except ModuleNotFoundError as error:
            print(f"page: the plots of {', '.join(old)} are old: {error}; pip install matplotlib")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
