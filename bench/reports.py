"""What a commit changed: a report of each job, compared with the one of the commit before.

Reports stay in a folder as JOB.COMMIT.json. If it has one of an earlier commit, the newest of them
is compared: a page JOB.html, and a line for each job.

    python bench/reports.py --jobs mlp,bert
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from jobs import JOBS

import gex
from gex import _gex
from gex.report.page import Report

ROOT = Path(__file__).resolve().parent.parent


def commit() -> str:
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def report_of(job: str, calls: int, folder: Path) -> Report:
    model, inputs, kwargs = JOBS[job]()
    compiled = torch.compile(model.eval(), backend="npugraph_ex", **kwargs)
    with torch.no_grad():
        for _ in range(3):
            compiled(*inputs[0])
        _gex.wait_for_background()
        path = folder / f"{job}.{commit()}.json"
        with gex.report(path, title=f"{job} {commit()}") as recording:
            for _ in range(calls):
                compiled(*inputs[0])
    assert recording.report is not None
    return recording.report


def earlier(job: str, folder: Path) -> Path | None:
    """The newest report of this job from another commit."""
    now = folder / f"{job}.{commit()}.json"
    found = [path for path in folder.glob(f"{job}.*.json") if path != now]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def figures(report: Report) -> dict[str, Any]:
    graphs = report.model["graphs"]
    return {
        "ms": sum(g["timeline"]["ns"] for g in graphs if "timeline" in g) / 1e6,
        "launches": sum(step["kind"] == "launch" for g in graphs for step in g["steps"]),
        "bytes": sum(g["memory"]["total"] for g in graphs),
    }


def line(job: str, old: Report | None, new: Report) -> str:
    after = figures(new)
    if old is None:
        return f"{job}: {after['ms']:.3g} ms, {after['launches']} launches, {after['bytes']} bytes"
    before = figures(old)
    change = 100 * (after["ms"] / before["ms"] - 1)
    parts = [f"{before['ms']:.3g} to {after['ms']:.3g} ms ({change:+.1f} %)"]
    for name in ("launches", "bytes"):
        same = before[name] == after[name]
        parts.append(f"{after[name]} {name}" if same else f"{before[name]} to {after[name]} {name}")
    return f"{job}: {', '.join(parts)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", default="mlp,pointwise,resnet50,bert,qwen_tiny")
    parser.add_argument("--calls", type=int, default=20, help="traced calls; the fastest is shown")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "reports")
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    for job in arguments.jobs.split(","):
        if job not in JOBS:
            sys.exit(f"no job {job}; there are {', '.join(JOBS)}")
        last = earlier(job, folder)
        new = report_of(job, arguments.calls, folder)
        old = None if last is None else Report(last.read_text())
        models = [new.text] if old is None else [old.text, new.text]
        page = folder / f"{job}.html"
        page.write_text(_gex.report_page(models))
        print(f"{line(job, old, new)}; {page}")


if __name__ == "__main__":
    main()
