"""The harness of tests/gpu/run: a crash or hang costs one unit; runs can be resumed."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import parts
import pytest
from pool import Pool
from results import Record, Results, markdown, summary_line

HARNESS = Path(__file__).resolve().parents[1] / "gpu" / "harness"
UNITS = """
import os, sys, time

def make(arguments):
    def run(unit):
        print("text that is no answer")
        if unit == "crash":
            print("last words", file=sys.stderr, flush=True)
            os.kill(os.getpid(), 11)
        if unit == "hang":
            time.sleep(100)
        if unit == "raise":
            raise ValueError("a failure")
        return {"outcome": "right", "figures": {"worker": os.getpid()}}
    return run
"""


def _run(folder: Path, units: list[str], jobs: int = 1, seconds: float = 100) -> dict[str, Any]:
    (folder / "strange_units.py").write_text(UNITS)
    environment = dict(os.environ, PYTHONPATH=f"{folder}:{HARNESS}")
    command = [sys.executable, str(HARNESS / "worker.py"), "strange_units"]
    answers: dict[str, Any] = {}
    deadline = time.monotonic() + seconds
    pool = Pool(command, environment, folder / "logs", jobs, 10, deadline)
    pool.run(units, answers.__setitem__)
    return answers


def test_a_crash_or_a_hang_costs_one_unit(tmp_path: Path) -> None:
    answers = _run(tmp_path, ["a", "crash", "b", "hang", "raise", "c"])
    outcomes = {unit: answer["outcome"] for unit, answer in answers.items()}
    assert outcomes == {
        "a": "right",
        "crash": "crash",
        "b": "right",
        "hang": "time-out",
        "raise": "error",
        "c": "right",
    }
    assert "last words" in answers["crash"]["detail"] and "-11" in answers["crash"]["detail"]
    assert answers["raise"]["detail"] == "ValueError: a failure"
    workers = {u: answers[u]["figures"]["worker"] for u in "abc"}
    assert len(set(workers.values())) == 3  # a new one after the crash and after the hang


def test_no_unit_is_started_after_the_deadline(tmp_path: Path) -> None:
    assert _run(tmp_path, ["a", "b"], seconds=-1) == {}


def test_records_name_the_sources_and_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("results.digest_of_sources", lambda: "one")
    results = Results(tmp_path / "gpu.json")
    results.add(Record("zoo-static", "bert", "right"))
    results.add(Record("zoo-static", "gpt2", "wrong", "off by | 3"))
    results.write()
    again = Results(tmp_path / "gpu.json")
    assert again.is_done("zoo-static", "bert") and not again.is_done("zoo-static", "opt")
    assert [record.unit for record in again.failures("zoo-static")] == ["gpt2"]
    assert "| zoo-static | gpt2 | wrong | off by / 3 |" in markdown(again, ["zoo-static"])
    monkeypatch.setattr("results.digest_of_sources", lambda: "two")
    other = Results(tmp_path / "gpu.json")
    assert not other.is_done("zoo-static", "bert")
    assert "(2 of them with other sources)" in summary_line(other, "zoo-static")


def test_the_first_checks_go_on_after_a_failure_and_are_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str, float]] = []

    def passes(settings: parts.Settings, part: str, results: Results) -> None:
        asked.append((part, settings.units, settings.limit))
        results.add(Record(part, settings.units or "all", "right"))

    def fails(settings: parts.Settings, part: str, results: Results) -> None:
        asked.append((part, settings.units, settings.limit))
        raise RuntimeError("no nvcc")

    checks = (
        parts.Check("python", 60, "softmax"),
        parts.Check("kernels", 50),
        parts.Check("python", 1000, "sort"),
        parts.Check("features", 300),
    )
    monkeypatch.setattr(parts, "FIRST", checks)
    monkeypatch.setattr(parts, "_ANY", {"python": passes, "kernels": fails, "features": passes})
    settings = parts.Settings(tmp_path, tmp_path, "cpu", 1, 1, 100, True, False, "")
    results = Results(tmp_path / "gpu.json")
    parts.first(settings, "first", results)
    assert [(part, units) for part, units, _ in asked] == [
        ("python", "softmax"),
        ("kernels", ""),
        ("python", "sort"),
        ("features", ""),
    ]
    assert [round(limit) for *_, limit in asked] == [60, 50, 100, 100]
    outcomes = {record.unit: record.outcome for record in results.of("first")}
    assert outcomes == {
        "python softmax": "right",
        "kernels": "error",
        "python sort": "right",
        "features": "right",
    }
    assert "no nvcc" in results.failures("first")[0].detail
    # All of it is in the file, whatever ends the process now.
    again = Results(tmp_path / "gpu.json")
    assert len(again.of("first")) == 4 and len(again.of("python")) == 2
    asked.clear()
    parts.first(settings, "first", again)
    assert not asked
    # Too little time for the rest.
    monkeypatch.setattr(parts, "FIRST", (parts.Check("kernels", 200, "late"),))
    parts.first(replace(settings, limit=20), "first", again)
    assert not asked


def test_the_first_checks_name_parts_that_exist() -> None:
    every = parts.PARTS | parts.MORE_PARTS
    assert {check.part for check in parts.FIRST} <= set(every)
    assert sum(check.limit for check in parts.FIRST) < 2 * 600  # two calls of a machine, at most
