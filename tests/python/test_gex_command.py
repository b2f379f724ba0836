"""The gex command: its output and its error messages."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest
import torch

import fake_gpu

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ENVIRONMENT = ROOT / "docs" / "environment.md"
GEX = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build")) / "bin" / "gex"

pytestmark = pytest.mark.skipif(not GEX.exists(), reason="build/bin/gex is not built")

GRAPH = """symbols s0
graph main(%x: f32[s0, 3], %w: f32[3, 2]) -> (f32[s0, 2]) {
  %a = full() {value = 2.0} : f32[]
  %b = full() {value = 3.0} : f32[]
  %c = add(%a, %b) : f32[]
  %unused = neg(%x) : f32[s0, 3]
  %y = matmul(%x, %w) : f32[s0, 2]
  %z = matmul(%x, %w) : f32[s0, 2]
  %s = add(%y, %z) : f32[s0, 2]
  %r = mul(%s, %c) : f32[s0, 2]
  return %r
}
"""


def gex(*words: str | pathlib.Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [GEX, *words], input=text, capture_output=True, text=True, timeout=60, check=False
    )


def fails(*words: str | pathlib.Path, text: str | None = None) -> str:
    """The message of a call that must fail with the standard error format."""
    result = gex(*words, text=text)
    assert result.returncode == 1, result
    assert result.stdout == ""
    assert result.stderr.startswith("gex: ")
    assert "bug in gex" not in result.stderr
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.fixture
def graph(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "in.gex"
    path.write_text(GRAPH)
    return path


def test_opt_runs_the_named_passes_in_order(graph: pathlib.Path) -> None:
    result = gex("opt", graph, "--passes=fold,cse,dce")
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("matmul(") == 1
    assert "neg(" not in result.stdout
    assert "5.0" in result.stdout
    only_dce = gex("opt", graph, "--passes=dce").stdout
    assert "neg(" not in only_dce and only_dce.count("matmul(") == 2


def test_opt_output_is_input_again(graph: pathlib.Path) -> None:
    once = gex("opt", graph, "--passes", "fold,cse,dce").stdout
    again = gex("opt", "-", "--passes=dce", text=once)
    assert again.stdout == once


def test_opt_levels_and_stats(graph: pathlib.Path) -> None:
    assert "neg(" in gex("opt", graph, "--level=0").stdout
    result = gex("opt", graph, "--level=2", "--stats")
    assert "neg(" not in result.stdout
    assert "cse" in result.stderr and "ms" in result.stderr


def test_opt_switches_and_dumps(graph: pathlib.Path, tmp_path: pathlib.Path) -> None:
    switches = tmp_path / "switches.json"
    switches.write_text('{"Switch": {"GraphFusion": {"ALL": "off", "dce": "on"}}}')
    only_dce = gex("opt", graph, f"--switches={switches}", "--stats")
    assert "dce" in only_dce.stderr and "cse" not in only_dce.stderr
    dumped = tmp_path / "dumped"
    gex("opt", graph, "--level=0", "--enable=cse", f"--dump={dumped}", "--dump-passes=cse")
    names = {path.name for path in dumped.iterdir()}
    assert {"000_before_cse.gex", "001_after_cse.gex", "fusion_result.json"} <= names
    assert "--dump=DIR" in fails("opt", graph, "--dump-passes=cse")
    assert "can't create the folder" in fails("opt", graph, f"--dump={switches}/inside")


def test_opt_lists_passes() -> None:
    names = [line.split()[0] for line in gex("opt", "--list-passes").stdout.splitlines()]
    assert {"fold", "cse", "dce", "canonicalise", "expand"} <= set(names)


def test_run_takes_npy_and_writes_npy(graph: pathlib.Path, tmp_path: pathlib.Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    w = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(3, 2))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "w.npy", w)
    result = gex(
        *["run", graph, "--input", f"x={tmp_path}/x.npy", f"--input=w={tmp_path}/w.npy"],
        f"--out={tmp_path}/results",
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "output_0: f32[2, 2]\n[[100, 130],\n [280, 400]]\n"
    np.testing.assert_allclose(np.load(tmp_path / "results" / "output_0.npy"), 10 * x @ w)


@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u1", "?"])
def test_npy_keeps_every_dtype(tmp_path: pathlib.Path, dtype: str) -> None:
    name = {"f8": "f64", "f4": "f32", "f2": "f16", "u1": "u8", "?": "bool"}.get(dtype)
    name = name or f"i{8 * int(dtype[1])}"
    text = f"graph g(%x: {name}[3, 2]) -> ({name}[3, 2]) {{ return %x }}"
    x = np.array([[0, 1], [1, 0], [1, 1]], dtype=dtype)
    np.save(tmp_path / "x.npy", x)
    result = gex("run", "-", f"--input=x={tmp_path}/x.npy", f"--out={tmp_path}", text=text)
    assert result.returncode == 0, result.stderr
    back = np.load(tmp_path / "output_0.npy")
    assert back.dtype == x.dtype
    np.testing.assert_array_equal(back, x)


def test_run_compiled_equals_interpreted(graph: pathlib.Path, tmp_path: pathlib.Path) -> None:
    common = ["run", graph, "--dim", "s0=7", "--seed=3"]
    assert gex(*common, f"--out={tmp_path}/c").returncode == 0
    assert gex(*common, f"--out={tmp_path}/i", "--interpret").returncode == 0
    compiled, interpreted = (np.load(tmp_path / kind / "output_0.npy") for kind in "ci")
    np.testing.assert_allclose(compiled, interpreted, rtol=1e-5, atol=1e-5)
    assert gex(*common).stdout == gex(*common).stdout
    assert gex(*common).stdout != gex(*common[:-1], "--seed=4").stdout


@pytest.mark.parametrize("how", [[], ["--interpret"]])
def test_run_shows_inputs_that_are_written(how: list[str]) -> None:
    text = """graph g(%x: f32[2]) -> (f32[2], f32[2]) ties(0 -> 0) {
      %n = neg(%x) : f32[2]
      %d = add(%x, %x) : f32[2]
      return %n, %d
    }"""
    result = gex("run", "-", "--input", "x=ones", *how, text=text)
    assert result.stdout == "output_0: f32[2]\n[2, 2]\nx: f32[2]\n[-1, -1]\n"


def test_writing_in_place_is_counted_and_can_be_switched_off(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "tied.gex"
    path.write_text("""graph g(%x: f32[2]) -> (f32[2]) ties(0 -> 0) {
      %n = neg(%x) : f32[2]
      return %n
    }""")
    assert re.search(r"in_place:? +1", gex("explain", path).stdout)
    assert "in_place" not in gex("explain", path, "--no-in-place").stdout
    for option in ([], ["--no-in-place"]):
        assert gex("run", path, "--input=x=ones", *option).stdout == "x: f32[2]\n[-1, -1]\n"
    assert "'streams' takes a whole number from 0 to 64, got '-1'" in fails(
        "run", path, "--streams=-1"
    )


def test_run_shortens_long_results() -> None:
    text = "graph g() -> (i64[5000]) { %0 = iota() {size = 5000} : i64[5000] return %0 }"
    assert gex("run", "-", text=text).stdout == (
        "output_0: i64[5000]\n[0, 1, 2, ..., 4997, 4998, 4999]\n"
    )


@pytest.mark.parametrize("value", ["yes", "3x", "-1"])
def test_a_profile_of_no_number_of_rows_is_an_error(graph: pathlib.Path, value: str) -> None:
    failed = subprocess.run(
        [GEX, "run", graph, "--dim", "s0=4"],
        env=dict(os.environ, GEX_PROFILE=value),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert failed.stderr == f"gex: GEX_PROFILE is '{value}': must be a number of rows\n"


def test_profile_lists_launches_by_time(graph: pathlib.Path) -> None:
    plain = gex("run", graph, "--dim", "s0=4")
    profiled = subprocess.run(
        [GEX, "run", graph, "--dim", "s0=4"],
        env=dict(os.environ, GEX_PROFILE="1"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert plain.stderr == ""
    assert profiled.stdout == plain.stdout
    head, columns, *rows = profiled.stderr.splitlines()
    assert head.startswith("gex profile: ")
    assert "work/ns" in columns
    assert len(rows) == 1
    assert "matmul" in rows[0] and "[1 1 4 2 3" in rows[0]


def test_dump_shows_three_levels(graph: pathlib.Path) -> None:
    levels = {level: gex("dump", graph, f"--level={level}") for level in ["graph", "kernels"]}
    levels["program"] = gex("dump", graph, "--level", "program")
    for result in levels.values():
        assert result.returncode == 0, result.stderr
    assert levels["graph"].stdout.startswith("symbols s0")
    assert levels["graph"].stdout == gex("dump", graph).stdout
    assert "contraction matmul+add+mul" in levels["kernels"].stdout
    assert "launch " in levels["program"].stdout
    unfused = gex("dump", graph, "--level=program", "--no-fuse").stdout
    assert unfused.count("launch ") > levels["program"].stdout.count("launch ")


def test_prologues_are_used_unless_switched_off(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "scaled.gex"
    path.write_text(
        "graph scaled(%x: f32[20, 30], %s: f32[30], %w: f32[30, 40]) -> (f32[20, 40]) {\n"
        "  %a = mul(%x, %s) : f32[20, 30]\n"
        "  %b = matmul(%a, %w) : f32[20, 40]\n"
        "  return %b\n}\n"
    )
    together, apart = gex("explain", path), gex("explain", path, "--no-prologues")
    assert together.returncode == 0 and apart.returncode == 0, together.stderr + apart.stderr
    assert "prologues" in together.stdout and "prologues" not in apart.stdout
    launches = [
        gex("dump", path, "--level=program", *flags).stdout.count("launch ")
        for flags in ([], ["--no-prologues"])
    ]
    assert launches == [1, 2]


def test_help_reads_well() -> None:
    overview = gex("--help")
    assert overview.returncode == 0
    for name in ["opt", "run", "dump", "explain", "bench", "reduce", "fuzz", "ops"]:
        assert f"\n  {name} " in overview.stdout
        page = gex("help", name)
        assert page.returncode == 0
        assert page.stdout.startswith(f"gex {name}: ")
        assert gex(name, "--help").stdout == page.stdout
        assert max(len(line) for line in page.stdout.splitlines()) <= 100
    assert gex("help").stdout == overview.stdout
    assert gex().returncode == 1
    assert gex("--version").stdout.startswith("gex 0.")


def test_errors_suggest_the_nearest(graph: pathlib.Path) -> None:
    assert "did you mean 'dump'?" in fails("dmup", graph)
    assert "did you mean '--passes'?" in fails("opt", graph, "--pases=cse")
    assert "did you mean 'cse'?" in fails("opt", graph, "--passes=cs")
    assert "did you mean 'kernels'?" in fails("dump", graph, "--level=kernel")
    assert "did you mean 's0'?" in fails("run", graph, "--dim", "s1=3")
    assert "it has: x, w" in fails("run", graph, "--input=y=ones")


def test_errors_give_advice(graph: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert "add --dim s0=N" in fails("run", graph)
    assert "needs a file" in fails("run")
    assert "needs a value" in fails("run", graph, "--seed")
    assert "takes no value" in fails("run", graph, "--interpret=1")
    assert "takes an integer" in fails("run", graph, "--seed=two")
    assert "name=value" in fails("run", graph, "--dim", "7")
    assert "--level: option 'level' takes a whole number from 0 to 3, got '9'" in fails(
        "opt", graph, "--level=9"
    )
    assert "No such file" in fails("opt", tmp_path / "absent.gex")
    assert "is a folder" in fails("opt", tmp_path)
    assert "also got 'b.gex'" in fails("opt", graph, "b.gex")
    assert "random, ones" in fails("run", graph, "--dim=s0=2", "--input=x=rnadom")
    (tmp_path / "bad.npy").write_bytes(b"not numpy at all")
    assert "not a .npy file" in fails("run", graph, f"--input=x={tmp_path}/bad.npy")
    np.save(tmp_path / "wide.npy", np.zeros((2, 4), np.float32))
    assert "expected f32[s0, 3], got f32[2, 4]" in fails(
        "run", graph, f"--input=x={tmp_path}/wide.npy"
    )
    np.save(tmp_path / "double.npy", np.zeros((2, 3)))
    assert "takes f32, but" in fails("run", graph, f"--input=x={tmp_path}/double.npy")
    assert "(sizes that vary: s0)" in fails("run", graph, "--dim", "batch=3")
    assert "needs the name of a shell: gex completion bash|zsh|fish" in fails("completion")
    assert "did you mean '--version'?" in fails("--versoin")


def test_bad_texts_name_file_and_position(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "bad.gex"
    path.write_text("graph g(%x: f32[2]) -> (f32[2]) {\n  %0 = nothing(%x) : f32[2]\n}")
    assert f"{path}:2:" in fails("opt", path)
    assert "<standard input>:1:" in fails("opt", "-", text="what is this")
    path.write_bytes(bytes(range(256)) * 20)
    assert f"{path}:1:" in fails("opt", path)


def test_truncated_npy_is_refused(graph: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.zeros((2, 3), np.float32))
    whole = path.read_bytes()
    for length in [7, 11, 40, len(whole) - 4]:
        path.write_bytes(whole[:length])
        fails("run", graph, f"--input=x={path}")


def test_ops_lists_definitions_and_overloads() -> None:
    table = gex("ops").stdout
    assert "| `add(a, b)` |" in table
    assert "| `layer_norm(x, weight?, bias?; rank = 1, eps = 1e-05, divide = false)` |" in table
    one = gex("ops", "tanh").stdout
    assert "elementwise" in one and "aten.tanh.default" in one
    assert "aten.addmm.default" in gex("ops", "--aten").stdout.splitlines()
    assert "did you mean" in fails("ops", "tanj")


def test_explain_without_reuse_shares_no_memory(tmp_path: pathlib.Path) -> None:
    chain = tmp_path / "chain.gex"
    steps = "".join(f"  %{b} = exp(%{a}) : f32[64]\n" for a, b in zip("xabc", "abcd"))
    chain.write_text(f"graph chain(%x: f32[64]) -> (f32[64]) {{\n{steps}  return %d\n}}\n")
    plan = gex("explain", chain, "--no-fuse", "--level=0").stdout
    apart = gex("explain", chain, "--no-fuse", "--level=0", "--no-reuse").stdout
    assert "shares with" in plan and "shares with" not in apart
    assert "arena 768 bytes, lower bound 512" in apart and "memory reuse is switched off" in apart


def test_bench_and_explain_agree_on_memory(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "products.gex"
    path.write_text(
        "graph products(%x: f32[64, 64]) -> (f32[64, 64]) {\n"
        "  %a = matmul(%x, %x) : f32[64, 64]\n"
        "  %b = softmax(%a) {axis = 1} : f32[64, 64]\n"
        "  %c = matmul(%b, %a) : f32[64, 64]\n"
        "  return %c\n}\n"
    )
    measured = gex("bench", path, "--calls", "2").stdout
    explained = gex("explain", path).stdout
    arena = re.search(r"^arena +(\d+) bytes", measured, re.M)
    scratch = re.search(r"^kernel scratch +(\d+) bytes", measured, re.M)
    assert arena and scratch, measured
    assert f"arena {arena[1]} bytes" in explained
    of_one = re.search(r"and (\d+) bytes of kernel scratch for each worker", explained)
    # Launches of one point need it for one worker alone.
    assert of_one and int(of_one[1]) <= int(scratch[1]), explained


def test_explain_reports_stages_counts_remarks_and_memory(graph: pathlib.Path) -> None:
    text = gex("explain", graph).stdout
    assert text.startswith('graph "main": 8 nodes, ')
    assert "passes" in text and "pass.cse" in text
    assert "Memory depends on s0: set them with --dim" in text
    plan = gex("explain", graph, "--dim", "s0=64", "--no-fuse", "--level=0").stdout
    assert "lower bound" in plan and "without reuse" in plan
    assert re.search(r'%\d+ "s" offset \d+ bytes 512 steps \d+\.\.\d+', plan), plan
    assert "did you mean 's0'?" in fails("explain", graph, "--dim", "s9=3")


def test_explain_reports_what_is_checked_when_sizes_change() -> None:
    text = """symbols s0, s1
graph g(%a: f32[2, s0], %b: f32[s1, 3]) -> (f32[2, 3]) {
  %y = matmul(%a, %b) : f32[2, 3]
  return %y
}"""
    assert "s0 == s1  (matmul(f32[2, s0], f32[s1, 3])" in gex("explain", "-", text=text).stdout


def test_bench_measures_calls(graph: pathlib.Path) -> None:
    result = gex("bench", graph, "--dim", "s0=4", "--calls=5")
    assert result.returncode == 0, result.stderr
    rows = {line[:16].strip(): line[16:].split() for line in result.stdout.splitlines()}
    assert rows["calls"] == ["5", "timed"]
    assert float(rows["fastest call"][0]) <= float(rows["median call"][0])
    assert int(rows["launches"][0]) >= 1
    assert "at least 1" in fails("bench", graph, "--dim=s0=4", "--seconds=0")


def test_bench_lists_the_candidates_that_autotune_measured(graph: pathlib.Path) -> None:
    tuned = gex("bench", graph, "--dim", "s0=40", "--seconds=1", "--autotune")
    assert tuned.returncode == 0, tuned.stderr
    (line,) = [line for line in tuned.stdout.splitlines() if line.startswith("tuned: ")]
    assert re.search(r"tuned: 1x1x40x\d+x\d+ matmul .* us", line)


def test_reduce_shrinks_a_graph_that_a_command_rejects(
    graph: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    wrong = tmp_path / "wrong.sh"
    wrong.write_text('#!/bin/sh\nif grep -q "matmul(" "$1"; then exit 3; fi\nexit 0\n')
    wrong.chmod(0o755)
    result = gex("reduce", graph, "--command", f"{wrong} {{}}")
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("matmul(") == 1
    assert "add(" not in result.stdout and "mul(" not in result.stdout.replace("matmul(", "")
    assert "8 nodes reduced to 1" in result.stderr
    assert gex("run", "-", text=result.stdout).returncode == 0
    other = gex("reduce", graph, "--command", f"{wrong} {{}}", "--exit-code=3")
    assert other.stdout == result.stdout
    assert "does not fail" in fails("reduce", graph, "--command", f"{wrong} {{}}", "--exit-code=4")


def test_reduce_reports_if_there_is_nothing_to_reduce(graph: pathlib.Path) -> None:
    assert "agrees with the interpreter" in fails("reduce", graph, "--dim", "s0=3")


def test_fuzz_tries_graphs_and_counts_them() -> None:
    result = gex("fuzz", "--graphs=6", "--seed=40")
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    assert result.stderr == "6 graphs from seed 40, 0 failed\n"
    assert "at least 1" in fails("fuzz", "--seconds=0")


def test_fuzz_creates_its_output_folder_first(tmp_path: pathlib.Path) -> None:
    assert gex("fuzz", "--graphs=1", f"--out={tmp_path / 'a' / 'b'}").returncode == 0
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("")
    below = tmp_path / "file" / "x"
    assert "can't create the folder" in fails("fuzz", "--graphs=1", f"--out={below}")


def test_cache_lists_checks_and_clears_a_folder(
    graph: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ("--dir", tmp_path / "c")
    assert "0 entries" in gex("cache", "list", *folder).stdout
    monkeypatch.setenv("GEX_CACHE_DIR", str(tmp_path / "c"))
    gex("run", graph, "--dim=s0=2")
    (entry,) = (tmp_path / "c" / "program").glob("*/*")
    listed = gex("cache", "list", *folder).stdout
    assert f"program  {entry.name[:16]}" in listed
    count = int(listed.splitlines()[-1].split()[0])
    assert gex("cache", "verify", *folder).returncode == 0
    entry.write_bytes(b"GEXART\r\n and nothing else")
    verified = gex("cache", "verify", *folder)
    assert verified.returncode == 1
    assert str(entry) in verified.stdout and f"{count - 1} of {count} entries" in verified.stdout
    assert f"{count} entries removed" in gex("cache", "clear", *folder).stdout
    assert not entry.exists()
    assert gex("cache", "verify", *folder).returncode == 0
    assert "did you mean 'list'" in fails("cache", "lst", *folder)


ENDLESS = """graph g(%n: i64[]) -> (i64[]) {
  %z = while(%n) {carried = 1} regions(
    graph c(%a: i64[]) -> (bool[]) {
      %k = constant() {value = i64[](0)} : i64[]
      %f = ge(%a, %k) : bool[]
      return %f
    },
    graph b(%a: i64[]) -> (i64[]) {
      %k = constant() {value = i64[](0)} : i64[]
      %f = mul(%a, %k) : i64[]
      return %f
    }) : i64[]
  return %z
}
"""

GATHER = """graph g(%x: f32[4], %i: i64[2]) -> (f32[2]) {
  %y = index(%x, %i) {axes = [0]} : f32[2]
  return %y
}
"""


def test_run_stops_at_its_time_limit() -> None:
    assert "exceeded its time limit" in fails(
        "run", "-", "--input=n=ones", "--timeout=1", text=ENDLESS
    )
    assert "--timeout is at least 1" in fails("run", "-", "--timeout=0", text=GATHER)


def test_run_refuses_indices_out_of_range(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "i.npy", np.array([1, 9]))
    given = f"--input=i={tmp_path / 'i.npy'}"
    message = fails("run", "-", given, text=GATHER)
    assert "index out of range" in message and "4 elements" in message
    assert gex("run", "-", given, "--unchecked-indices", text=GATHER).returncode == 0


def test_bench_and_cache_report_missing_arguments(graph: pathlib.Path) -> None:
    assert "--calls is at least 1, got 0" in fails("bench", graph, "--dim=s0=2", "--calls=0")
    assert "list, clear or verify" in fails("cache")


def test_commands_use_the_compile_cache(
    graph: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("GEX_CACHE_MAX_BYTES", "1.5G")
    first = gex("run", graph, "--dim=s0=2")
    assert first.returncode == 0, first.stderr
    listed = gex("cache", "list").stdout
    assert listed.count("program ") == 1 and "main" in listed
    assert gex("run", graph, "--dim=s0=2").stdout == first.stdout
    assert gex("cache", "list").stdout.count("program ") == 1
    monkeypatch.setenv("GEX_CACHE_MAX_BYTES", "2 apples")
    assert "500M or 2G" in gex("cache", "list").stderr


def test_cache_clear_leaves_foreign_files(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = tmp_path / "project" / "program" / "src" / "main.c"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("x")
    monkeypatch.setenv("GEX_CACHE_DIR", str(tmp_path / "project"))
    result = gex("cache", "clear")
    assert result.stdout.startswith("0 entries removed")
    assert "was not created by gex" in result.stderr
    assert foreign.read_text() == "x"


def test_a_missing_code_generator_warns_once(
    graph: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an install that left libgex_llvm.so out."""
    for name in ("libgex.so", "libgex_core.so"):
        for path in (GEX.parent.parent / "lib").glob(f"{name}*"):
            shutil.copy(path, tmp_path / path.name)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    result = gex("run", graph, "--dim=s0=2")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("reference executor") == 1
    assert "libgex_llvm.so" in result.stderr


def test_devices_are_not_read(graph: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("run", "opt", "inspect"):
        result = gex(command, "/dev/zero")
        assert result.returncode == 1
        assert "/dev/zero" in result.stderr and "is a device" in result.stderr
    monkeypatch.setenv("GEX_PASS_FILE", "/dev/zero")
    result = gex("run", graph, "--dim=s0=2")
    assert result.returncode == 1 and "is a device" in result.stderr


def test_empty_variables_count_as_unset(
    graph: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in re.findall(r"`((?:GEX|TORCH)_[A-Z_]+)` \|", ENVIRONMENT.read_text()):
        monkeypatch.setenv(name, "")
    result = gex("run", graph, "--dim=s0=2")
    assert (result.returncode, result.stderr) == (0, "")
    assert "can't start" not in gex("diff", "--help").stderr


def test_every_variable_is_in_the_table() -> None:
    documented = set(re.findall(r"`([A-Z_]+)` \|", ENVIRONMENT.read_text()))
    read = set()
    for folder in ("src", "tools", "python"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".cpp", ".hpp", ".py"):
                text = path.read_text()
                read |= set(re.findall(r"\"((?:GEX|TORCH_NPU|TORCHAIR)_[A-Z_]+)\"", text))
    internal = {"GEX_NPU_SPAWNED_MAIN", "GEX_PASS", "GEX_OPS", "GEX_OPTIONS"}
    assert read - internal <= documented


def test_targets_are_checked(graph: pathlib.Path) -> None:
    assert 'unknown target \'gpu\': use "cpu" or "cuda:N"' in fails(
        "run", graph, "--dim=s0=2", "--target=gpu"
    )
    assert gex("run", graph, "--dim=s0=2", "--target=cpu").returncode == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("command", ["run", "bench"])
def test_a_device_that_is_not_there_is_an_error(graph: pathlib.Path, command: str) -> None:
    error = fails(command, graph, "--dim=s0=2", "--target=cuda:0")
    assert "target cuda:0 can't be used here: no CUDA driver: libcuda.so.1 can't be opened" in error


def test_cuda_gives_the_results_of_the_cpu(
    graph: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not torch.cuda.is_available():  # a driver that computes on the host
        fake_gpu.environment(tmp_path)
        monkeypatch.setenv("GEX_CUDA_LIBRARY_PATH", str(tmp_path))
        monkeypatch.setenv("GEX_FAKE_CUDA_PROTECT", "1")
    folders = {}
    for target in ("cpu", "cuda:0"):
        folders[target] = tmp_path / target.replace(":", "_")
        words = ("--dim=s0=4", f"--target={target}", "--out", folders[target])
        result = gex("run", graph, *words)
        assert result.returncode == 0, result.stderr
    got, expected = (np.load(folders[t] / "output_0.npy") for t in ("cuda:0", "cpu"))
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    explained = gex("explain", graph, "--dim=s0=4", "--target=cuda:0")
    assert explained.returncode == 0, explained.stderr
    assert "nvrtc" in explained.stdout


# Every command that opens a file, with a file that is missing: <> is its name.
MISSING = [
    *(f"{command} <>.gex" for command in ("opt", "run", "dump", "explain", "report", "profile")),
    *(f"{command} <>.gex" for command in ("bench", "reduce", "compile -o out.gexe")),
    *(f"{command} <>.onnx" for command in ("run", "bench", "report", "compile -o out.gexe")),
    *(f"{command} <>.gexe" for command in ("run", "bench", "inspect", "serve", "serve --port=0")),
    "serve name=<>.gexe",
    "compile -o out.gexe <>.pt2",
    "compile -o out.gexe <>.pb",
    "update <>.gexe",
    "run in.gex --dim s0=1 --input x=<>.npy --input w=ones",
    "run in.gex --dim s0=1 --switches <>.json",
]


@pytest.mark.parametrize("words", MISSING)
def test_a_missing_file_is_named_with_the_reason_and_advice(
    words: str, graph: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(graph.parent)
    relative = fails(*words.replace("<>", "absent").split())
    assert "absent." in relative
    assert "No such file or directory; check the name" in relative
    assert f"relative paths start at '{graph.parent}'" in relative
    elsewhere = fails(*words.replace("<>", "nowhere/absent").split())
    assert "; its folder 'nowhere' does not exist" in elsewhere


@pytest.mark.parametrize("command", ["opt", "run", "bench", "inspect"])
def test_a_folder_is_no_file(command: str, tmp_path: pathlib.Path) -> None:
    assert "is a folder, not a" in fails(command, tmp_path)


def test_an_output_in_a_missing_folder(graph: pathlib.Path) -> None:
    assert "its folder 'nowhere' does not exist" in fails(
        "dump", graph, "--onnx", "nowhere/out.onnx"
    )
