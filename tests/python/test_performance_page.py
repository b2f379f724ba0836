"""docs/performance.md: what bench/page.py writes from the results file, and how figures come in."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"


def page(*options: str, results: pathlib.Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "bench" / "page.py", "--results", results, *options]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def docs(tmp_path: pathlib.Path) -> pathlib.Path:
    shutil.copy(DOCS / "performance.json", tmp_path)
    shutil.copy(DOCS / "performance.md", tmp_path)
    shutil.copytree(DOCS / "plots", tmp_path / "plots")
    return tmp_path


def change(path: pathlib.Path, value: float) -> dict[str, Any]:
    results = json.loads(path.read_text())
    results["subjects"]["calls"]["rows"][0]["values"]["eager"] = value
    path.write_text(json.dumps(results))
    return results


def test_page_and_plots_are_those_of_the_results_file() -> None:
    done = page("--check", results=DOCS / "performance.json")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_figure_says_where_it_comes_from() -> None:
    results = json.loads((DOCS / "performance.json").read_text())
    for key, entry in results["subjects"].items():
        assert entry["rows"], key
        for row in entry["rows"]:
            assert all(row[f] for f in ("date", "commit", "machine", "command")), (key, row)
            assert row["values"] and set(row["values"]) <= set(entry["columns"]), (key, row)
    plots = {path.stem for path in (DOCS / "plots").glob("*.png")}
    assert plots == set(results["subjects"])


def test_old_page_and_old_plot_are_found(docs: pathlib.Path) -> None:
    results = docs / "performance.json"
    change(results, 12345)
    done = page("--check", results=results)
    assert done.returncode == 1
    assert f"{docs / 'plots' / 'calls'}.png is not what" in done.stdout
    assert f"{docs / 'performance.md'} is not what" in done.stdout
    assert done.stdout.count("is not what") == 2

    assert page("--text", results=results).returncode == 0
    assert "| 12345 |" in (docs / "performance.md").read_text()
    done = page("--check", results=results)
    assert done.returncode == 1 and done.stdout.count("is not what") == 1


def test_plots_are_drawn(docs: pathlib.Path) -> None:
    pytest.importorskip("matplotlib", reason="plots are drawn by matplotlib")
    results = docs / "performance.json"
    change(results, 12345)
    done = page(results=results)
    assert done.returncode == 0, done.stdout + done.stderr
    assert page("--check", results=results).returncode == 0


def test_measured_rows_are_taken_in(docs: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    monkeypatch.setattr(sys, "argv", ["bench/compare.py", "--results", "x.json", "--jobs", "mlp"])
    import results

    path = docs / "performance.json"
    before = results.load(path)["subjects"]["calls"]["rows"]
    results.record(
        path, "calls", {"mlp": {"eager": 1.23456, "npugraph_ex": 1}, "new": {"eager": 2}}
    )
    after = results.load(path)["subjects"]["calls"]["rows"]
    assert after[0]["name"] == before[0]["name"] and after[0]["limit"] == before[0]["limit"]
    assert after[0]["values"] == {"eager": 1.235, "npugraph_ex": 1}
    assert after[0]["command"] == "python compare.py --jobs mlp" or after[0]["command"] == (
        "python bench/compare.py --jobs mlp"
    )
    assert "note" not in after[0]
    assert after[1:-1] == before[1:] and after[-1]["name"] == "new"
    with pytest.raises(ValueError, match="calls has no column wrong"):
        results.record(path, "calls", {"mlp": {"wrong": 1}})
