"""The gex command for other programs: --json, and texts of every stage run again."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
from typing import Any

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build"))
GEX = BUILD / "bin" / "gex"
KERNELS = ROOT / "tests" / "loop" / "kernels"

pytestmark = pytest.mark.skipif(not GEX.exists(), reason="build/bin/gex is not built")

GRAPH = """symbols s0 in [1, 512]
graph main(%x: f32[s0, 3], %w: f32[3, 2], %state: f32[s0, 2])
    -> (f32[s0, 2], f32[s0], f32[s0, 2]) ties(2 -> 2) {
  %y = matmul(%x, %w) : f32[s0, 2]
  %r = relu(%y) : f32[s0, 2]
  %e = exp(%x) : f32[s0, 3]
  %m = reduce_sum(%e) {axes = [1]} : f32[s0]
  %z = add(%r, %state) : f32[s0, 2]
  return %r, %m, %z
}
"""


def gex(*words: str | pathlib.Path, text: str | None = None, status: int = 0) -> str:
    done = subprocess.run(
        [GEX, *words], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def object_of(*words: str | pathlib.Path) -> dict[str, Any]:
    told = json.loads(gex(*words, "--json"))
    assert isinstance(told, dict)
    return told


@pytest.fixture
def graph(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "in.gex"
    path.write_text(GRAPH)
    return path


def test_run_gives_results_as_json(graph: pathlib.Path, tmp_path: pathlib.Path) -> None:
    told = object_of("run", graph, "--dim=s0=2", "--out", tmp_path)
    results = told.pop("results")
    assert not told
    assert [r["name"] for r in results] == ["output_0", "output_1", "state"]
    for result in results:
        assert list(result) == ["name", "dtype", "shape", "values"]
        written = np.load(tmp_path / (result["name"] + ".npy"))
        assert result["dtype"] == "f32" and tuple(result["shape"]) == written.shape
        np.testing.assert_array_equal(np.float32(result["values"]), written)


def test_values_that_json_lacks_are_texts(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "in.gex"
    path.write_text(
        "graph g(%x: f32[3], %b: bool[2], %d: f64[]) -> (f32[3], bool[2], f64[]) {\n"
        "  %y = log(%x) : f32[3]\n  %z = bit_not(%b) : bool[2]\n  return %y, %z, %d\n}"
    )
    np.save(tmp_path / "x.npy", np.array([0, -1, np.inf], np.float32))
    np.save(tmp_path / "b.npy", np.array([True, False]))
    np.save(tmp_path / "d.npy", np.array(0.1))
    words = [f"--input={name}={tmp_path / name}.npy" for name in "xbd"]
    values = [r["values"] for r in object_of("run", path, *words)["results"]]
    assert values == [["-inf", "nan", "inf"], [False, True], 0.1]


def test_large_results_are_left_out_of_json(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "in.gex"
    path.write_text(
        "graph g(%x: f32[70000]) -> (f32[70000]) { %y = neg(%x) : f32[70000] return %y }"
    )
    (result,) = object_of("run", path)["results"]
    assert result["shape"] == [70000] and result["values"] is None


def test_bench_explain_and_their_memory_agree(graph: pathlib.Path) -> None:
    bench = object_of("bench", graph, "--dim=s0=4", "--calls=3")
    assert bench["calls"] == 3 and bench["load_us"] is None and bench["compile_us"] > 0
    assert bench["fastest_us"] <= bench["p50_us"] <= bench["slowest_us"]
    explained = object_of("explain", graph, "--dim=s0=4")
    assert explained["graph"] == "main" and explained["nodes"] == 5
    assert explained["kernels"] == len(
        re.findall("^code ", gex("dump", graph, "--level=program"), re.M)
    )
    assert explained["stages_ms"]["passes"] >= 0 and explained["counts"]
    assert explained["unknown_sizes"] == []
    assert explained["memory"]["arena_bytes"] == bench["arena_bytes"]
    assert bench["launches_a_call"] == explained["steps"]


def test_explain_says_which_sizes_are_missing(graph: pathlib.Path) -> None:
    explained = object_of("explain", graph)
    assert explained["unknown_sizes"] == ["s0"] and explained["memory"] is None


def test_explain_lists_temporaries(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "in.gex"
    path.write_text(
        "graph g(%x: f32[8, 8], %w: f32[8, 8]) -> (f32[8, 8]) {\n"
        "  %y = matmul(%x, %w) : f32[8, 8]\n  %z = matmul(%y, %y) : f32[8, 8]\n  return %z\n}"
    )
    memory = object_of("explain", path)["memory"]
    (row,) = memory["temporaries"]
    assert row["offset"] == 0 and row["bytes"] == 256 and row["first_step"] < row["last_step"]
    assert memory["arena_bytes"] >= 256 and row["shares_with"] == []


def test_cache_as_json(
    graph: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cache"
    monkeypatch.setenv("GEX_CACHE_DIR", str(folder))
    gex("run", graph, "--dim=s0=2")
    listed = object_of("cache", "list")
    assert listed["folder"] == str(folder) and len(listed["entries"]) >= 2
    assert listed["bytes"] == sum(entry["bytes"] for entry in listed["entries"])
    assert set(listed["entries"][0]) == {"kind", "key", "bytes", "used_ns", "name"}
    checked = object_of("cache", "verify")
    assert checked["checked"] == checked["usable"] == len(listed["entries"])
    entry = next(path for path in folder.glob("program/*/*") if path.is_file())
    entry.write_bytes(entry.read_bytes()[:-9])
    done = subprocess.run([GEX, "cache", "verify", "--json"], capture_output=True, check=False)
    assert done.returncode == 1
    (bad,) = json.loads(done.stdout)["unusable"]
    assert bad["path"] == str(entry) and bad["problem"]
    assert object_of("cache", "clear")["removed"] >= 1


def test_ops_as_json() -> None:
    ops = {op["name"]: op for op in object_of("ops")["ops"]}
    assert len(ops) > 150
    (softmax,) = object_of("ops", "softmax")["ops"]
    assert softmax == ops["softmax"]
    assert [field["name"] for field in softmax["inputs"]] == ["x"]
    assert "aten._softmax.default" in softmax["aten"] and softmax["doc"]
    assert len(object_of("ops", "--aten")["aten"]) > 300


def test_help_lists_the_keys() -> None:
    for command in ("run", "bench", "explain", "cache", "ops"):
        page = gex("help", command)
        assert "--json" in page.split("Options:")[1], command
    told = object_of("ops", "relu")["ops"][0]
    assert all(f'"{key}"' in gex("help", "ops") for key in told)


# --- texts of the stages --------------------------------------------------------------------------


@pytest.mark.parametrize("words", [[], ["--interpret"]])
def test_program_text_gives_what_its_graph_gives(graph: pathlib.Path, words: list[str]) -> None:
    program = gex("dump", graph, "--level=program")
    out = gex("run", "-", "--dim=s0=5", *words, text=program)
    assert [line for line in out.splitlines() if ":" in line] == [
        "output_0: f32[5, 2]",
        "output_1: f32[5]",
        "state: f32[5, 2]",
    ]
    if not words:
        assert out == gex("run", graph, "--dim=s0=5")


def test_kernel_text_runs_one_kernel(graph: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "kernels.loop"
    path.write_text(gex("dump", graph, "--level=kernels"))
    x = np.array([[0, 1, 2], [3, 4, 5]], np.float32)
    np.save(tmp_path / "x.npy", x)
    words = (f"--input=in0={tmp_path / 'x.npy'}", "--kernel=exp+reduce_sum")
    (result,) = object_of("run", path, *words)["results"]
    assert result["name"] == "out0"
    np.testing.assert_allclose(result["values"], np.exp(x).sum(1), rtol=1e-6)
    assert "choose one with --kernel: exp+reduce_sum, " in gex("run", path, status=1)
    assert "did you mean" in gex("run", path, "--kernel=exp+reduce_sun", status=1)


def test_kernels_written_by_hand_run() -> None:
    words = ("--input=x=iota", "--dim=rows=2", "--dim=cols=2")
    (result,) = object_of("run", KERNELS / "softmax.loop", *words)["results"]
    np.testing.assert_allclose(result["values"], [[0.26894143, 0.7310586]] * 2, rtol=1e-6)
    # Sizes that only the results have are given as well.
    sizes = [f"--dim={name}={size}" for name, size in dict(planes=1, h=2, w=2, oh=4, ow=4).items()]
    told = object_of("run", KERNELS / "bilinear.loop", "--input=x=ones", "--trust", *sizes)
    assert told["results"][0]["values"] == [[[1.0] * 4] * 4]
    # Its second operand is transposed, which inputs of the command are not.
    sizes = ["--dim=m=5", "--dim=k=2", "--dim=n=9"]
    assert 'input 1 "b": expected' in gex("run", KERNELS / "matmul.loop", *sizes, status=1)


def test_texts_that_may_leave_their_memory_are_refused(graph: pathlib.Path) -> None:
    program = gex("dump", graph, "--level=program")
    wrong = program.replace("load b0[g0, r0]", "load b0[g0 + 100000, r0]")
    assert wrong != program
    message = gex("run", "-", "--dim=s0=2", text=wrong, status=1)
    assert "stays inside its memory" in message and "--trust" in message


def test_errors_in_texts_have_a_position(graph: pathlib.Path) -> None:
    program = gex("dump", graph, "--level=program")
    assert "program text" in gex("run", "-", text=program.replace("fresh", "fersh"), status=1)
    kernels = gex("dump", graph, "--level=kernels")
    lines = kernels.splitlines()
    at = next(k for k, line in enumerate(lines) if " exp " in line) + 1
    message = gex("run", "-", text=kernels.replace(" exp ", " expp "), status=1)
    assert f"loop text {at}:" in message
