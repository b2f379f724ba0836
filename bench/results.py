"""The results file: docs/performance.json, one entry for each subject that was measured.

A benchmark calls `record`; bench/page.py writes docs/performance.md from the file.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "performance.json"


def machine() -> str:
    model = platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{model}, {len(os.sched_getaffinity(0))} cores, {platform.system()}"


def commit() -> str:
    """The measured commit; a + after it: with uncommitted changes."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    name = git("rev-parse", "--short", "HEAD") or "unknown"
    return name + ("+" if git("status", "--porcelain", "--", "src", "python", "bench") else "")


def command() -> str:
    script = Path(sys.argv[0]).resolve()
    shown = script.relative_to(ROOT) if script.is_relative_to(ROOT) else script.name
    words, skip = [], False
    for word in sys.argv[1:]:  # the output file is not part of the command
        if not skip and word != "--results":
            words.append(word)
        skip = word == "--results"
    return f"python {shlex.join([str(shown), *words])}"


def load(path: Path = RESULTS) -> dict[str, Any]:
    return json.loads(path.read_text())


def store(results: dict[str, Any], path: Path) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    new.replace(path)


def record(path: Path, subject: str, rows: dict[str, dict[str, float]]) -> None:
    """Replaces measured rows, by key or name; other rows stay unchanged."""
    results = load(path)
    entry = results["subjects"][subject]
    unknown = {column for row in rows.values() for column in row} - set(entry["columns"])
    if unknown:
        raise ValueError(f"{subject} has no column {', '.join(sorted(unknown))}: see {path}")
    mark = {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "machine": machine(),
        "command": command(),
    }
    known = {row.get("key", row["name"]): row for row in entry["rows"]}
    for name, values in rows.items():
        row = known.get(name)
        if row is None:
            row = {"name": name}
            entry["rows"].append(row)
        row.pop("note", None)  # of the replaced figures
        row |= {"values": {k: float(f"{v:.4g}") for k, v in values.items()}} | mark
    store(results, path)


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, help="a results file to write the figures to")
