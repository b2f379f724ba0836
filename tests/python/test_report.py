"""Reports: the model that `gex report` and `gex.report` write, traces, errors."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest
import torch

import fake_gpu
import gex
from gex import _gex

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GEX = pathlib.Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build")) / "bin" / "gex"

GRAPH = """symbols s0
graph main(%x: f32[s0, 64], %w: f32[64, 32]) -> (f32[s0, 32], f32[s0]) {
  %y = matmul(%x, %w) : f32[s0, 32]  @ "model.py:3 in forward"
  %z = relu(%y) : f32[s0, 32]  @ "model.py:4 in forward"
  %p = softmax(%z) {axis = 1} : f32[s0, 32]
  %s = reduce_sum(%x) {axes = [1]} : f32[s0]
  return %p, %s
}
"""


def command(*words: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([GEX, *words], capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def graph(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "in.gex"
    path.write_text(GRAPH)
    return path


def written(graph: pathlib.Path, *options: str) -> dict[str, Any]:
    path = graph.with_suffix(".json")
    done = command("report", graph, "--dim", "s0=50", "--calls=2", "-o", path, *options)
    assert done.returncode == 0, done.stderr
    model: dict[str, Any] = json.loads(path.read_text())
    return model


def check_links(graph: dict[str, Any]) -> None:
    """Each level names its parts on the others, and both sides agree."""
    for number, node in enumerate(graph["nodes"]):
        if node["unit"] >= 0:
            assert number in graph["units"][node["unit"]]["nodes"]
        for value in node["out"]:
            assert graph["values"][value][2] == number
    for number, unit in enumerate(graph["units"]):
        for step in unit["steps"]:
            assert graph["steps"][step]["unit"] == number
    for step in graph["steps"]:
        if step["kind"] == "launch":
            assert graph["codes"][step["code"]]["kernel"] < len(graph["kernels"])
            assert step["unit"] >= 0 or step["name"] == "copy"
    assert len(graph["memory"]["position_of_step"]) == len(graph["steps"])


def check_timeline(graph: dict[str, Any]) -> None:
    timeline = graph["timeline"]
    assert timeline["ns"] == min(timeline["calls"])
    for step, worker, begin, end in timeline["events"]:
        assert 0 <= step < len(graph["steps"])
        assert worker >= -1
        assert 0 <= begin <= end <= timeline["ns"]
    timed = {event[0] for event in timeline["events"]}
    launches = {k for k, s in enumerate(graph["steps"]) if s["kind"] == "launch"}
    assert launches <= timed


def test_the_model_links_three_levels_and_times_every_launch(graph: pathlib.Path) -> None:
    model = written(graph)
    assert (model["format"], model["version"]) == ("gex-report", 1)
    assert model["machine"]["gflops"] > 1 and model["machine"]["bandwidth"] > 0.1
    assert {"read", "passes", "fuse", "code", "run"} <= {name for name, _ in model["first_call"]}
    (only,) = model["graphs"]
    check_links(only)
    check_timeline(only)
    assert only["sizes"] == {"s0": 50}
    product = next(s for s in only["steps"] if only["units"][s["unit"]]["kind"] == "contraction")
    assert product["flops"] == pytest.approx(2 * 50 * 64 * 32, rel=0.1)
    assert "model.py:3" in only["nodes"][0]["at"]
    assert all("kernel" in kernel["loops"] for kernel in only["kernels"])
    assert only["passes"] and all(p["before"] >= 0 for p in only["passes"])


def test_memory_is_that_of_explain(graph: pathlib.Path) -> None:
    memory = written(graph)["graphs"][0]["memory"]
    text = command("explain", graph, "--dim", "s0=50").stdout
    assert f"arena {memory['total']} bytes, lower bound {memory['lower_bound']}" in text


def test_neighbours_that_did_not_fuse_are_named_with_the_reason(graph: pathlib.Path) -> None:
    fused, apart = written(graph)["graphs"][0], written(graph, "--no-fuse")["graphs"][0]
    assert len(apart["steps"]) > len(fused["steps"])
    for pair in fused["separate"]:
        assert pair["reason"]
        assert -1 <= pair["node"] < len(fused["nodes"])


def test_a_model_file_is_reported_without_its_graph(graph: pathlib.Path) -> None:
    file, path = graph.with_suffix(".gexe"), graph.with_suffix(".json")
    assert command("compile", graph, "-o", file).returncode == 0
    for options in ([], ["--trust"]):
        done = command("report", file, "--dim=s0=50", "--calls=2", "-o", path, *options)
        assert done.returncode == 0, done.stderr
        model = json.loads(path.read_text())
        assert [name for name, _ in model["first_call"]] == ["model", "session", "run"]
        (only,) = model["graphs"]
        assert only["nodes"] == [] and only["passes"] == []
        assert only["generator"].startswith("machine code" if options else "llvm")
        check_links(only)
        check_timeline(only)
        kinds = {only["units"][s["unit"]]["kind"] for s in only["steps"] if s["unit"] >= 0}
        assert kinds == {"loop", "contraction"}
        assert any(len(s.get("candidates", [])) > 1 for s in only["steps"])
    trace = graph.with_suffix(".trace.json")
    assert command("profile", file, "--dim=s0=50", "-o", trace).returncode == 0
    names = {event["name"] for event in json.loads(trace.read_text())["traceEvents"]}
    assert {s["name"] for s in only["steps"] if s["kind"] == "launch"} <= names


def test_a_page_needs_nothing_from_outside(graph: pathlib.Path, tmp_path: pathlib.Path) -> None:
    page = tmp_path / "page.html"
    done = command("report", graph, "--dim=s0=4", "-o", page)
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert "gex-report" in text and len(text) < 1_000_000
    for outside in ('src="http', 'href="http', "url(http", "fetch(", "XMLHttpRequest"):
        assert outside not in text


def test_two_reports_are_compared_and_pages_are_read_too(
    graph: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    old, new, both = tmp_path / "old.json", tmp_path / "new.html", tmp_path / "both.html"
    assert command("report", graph, "--dim=s0=4", "--no-fuse", "-o", old).returncode == 0
    assert command("report", graph, "--dim=s0=4", "-o", new).returncode == 0
    done = command("report", "--compare", old, new, "-o", both)
    assert done.returncode == 0, done.stderr
    begin = both.read_text().split('type="application/json">')[1]
    models = json.loads(begin.split("</script>")[0])
    assert len(models) == 2
    assert len(models[0]["graphs"][0]["steps"]) > len(models[1]["graphs"][0]["steps"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--compare", "in.gex"], "needs two reports, got 1"),
        (["--compare", "in.gex", "in.gex"], "is not a report"),
        (["in.gex", "in.gex"], "takes one file"),
        (["in.gex", "--calls=0"], "--calls is at least 1"),
        (["in.gex"], "s0"),
        (["in.gex", "--dim=s0=4", "-o", "report.pdf"], "a page (.html) or its data (.json)"),
        (["--compare", "in.gex", "in.gex", "-o", "both.json"], "a comparison is a page"),
    ],
)
def test_mistakes_are_named(graph: pathlib.Path, words: list[str], message: str) -> None:
    done = command("report", *(graph if word == "in.gex" else word for word in words))
    assert done.returncode == 1
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_a_trace_file_has_every_launch(graph: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "trace.json"
    done = command("profile", graph, "--dim=s0=50", "-o", path)
    assert done.returncode == 0, done.stderr
    events = json.loads(path.read_text())["traceEvents"]
    complete = [e for e in events if e["ph"] == "X"]
    assert any(e["name"] == "call main" for e in complete)
    assert any(e["args"].get("at", "").startswith("model.py:3") for e in complete if "args" in e)
    assert {e["name"] for e in events if e["ph"] == "M"} == {"process_name", "thread_name"}


def test_launches_of_a_gpu_are_on_streams_and_have_limits(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not torch.cuda.is_available():  # a driver that computes on the host
        fake_gpu.environment(tmp_path)
        monkeypatch.setenv("GEX_CUDA_LIBRARY_PATH", str(tmp_path))
    source = tmp_path / "two.gex"  # two products that do not depend on each other
    source.write_text("""graph main(%x: f32[64, 32], %w: f32[32, 32], %v: f32[32, 32])
    -> (f32[64, 32]) {
  %a = matmul(%x, %w) : f32[64, 32]
  %b = matmul(%x, %v) : f32[64, 32]
  %p = softmax(%b) {axis = 1} : f32[64, 32]
  %s = add(%a, %p) : f32[64, 32]
  return %s
}
""")
    path = tmp_path / "report.json"
    done = command("report", source, "--target=cuda:0", "--calls=3", "-o", path)
    assert done.returncode == 0, done.stderr
    (only,) = json.loads(path.read_text())["graphs"]
    device = only["device"]
    assert device["name"] and min(device["gflops"], device["bandwidth"]) > 0
    steps: dict[int, set[int]] = {}
    of_host = set()
    for step, track, begin, end in only["timeline"]["events"]:
        assert 0 <= begin <= end <= only["timeline"]["ns"]
        if track < 0:
            of_host.add(step)
        else:
            steps.setdefault(track, set()).add(step)
    assert of_host == {-2, -3}  # the host enqueues, and waits
    assert set(steps) == {0, 1} and len(steps[0] | steps[1]) == len(only["steps"])
    assert all(step["least"] > 0 for step in only["steps"])
    trace = tmp_path / "trace.json"
    done = command("profile", source, "--target=cuda:0", "-o", trace)
    assert done.returncode == 0, done.stderr
    names = {e.get("args", {}).get("name") for e in json.loads(trace.read_text())["traceEvents"]}
    assert {"host", "stream 0", "stream 1"} <= names


def test_gex_dump_writes_every_stage_of_each_graph_in_spite_of_the_cache(
    graph: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    environment = {**os.environ, "GEX_CACHE_DIR": str(tmp_path / "cache")}
    for folder in ("first", "second"):
        environment["GEX_DUMP"] = str(tmp_path / folder)
        subprocess.run(
            [GEX, "run", graph, "--dim=s0=4"], env=environment, check=True, capture_output=True
        )
        names = {path.name for path in (tmp_path / folder / "main_0").iterdir()}
        assert {"before_passes.gex", "graph.gex", "kernels.txt", "program.txt"} <= names
        assert {"before_passes.dot", "graph.dot", "kernels.dot", "program.dot"} <= names
        assert 'op_type: "matmul"' in (tmp_path / folder / "main_0" / "graph.pbtxt").read_text()


def dot(text: str) -> tuple[dict[str, str], set[tuple[str, str]]]:
    """Labels by name, and edges."""
    assert text.startswith("digraph ") and text.endswith("}\n")
    assert text.count("{") == text.count("}")
    labels = dict(re.findall(r'^ *(\w+) \[.*label="(.*)"\];$', text, re.M))
    edges = set(re.findall(r"^  (\w+) -> (\w+);$", text, re.M))
    assert {name for edge in edges for name in edge} <= set(labels)
    return labels, edges


def test_each_level_is_drawn_by_graphviz(graph: pathlib.Path) -> None:
    drawn = {}
    for level in ("graph", "kernels", "program"):
        done = command("dump", graph, "--level", level, "--dot")
        assert done.returncode == 0, done.stderr
        drawn[level] = dot(done.stdout)
    labels, edges = drawn["graph"]
    by_label = {label: name for name, label in labels.items()}
    assert (by_label["%x\\nf32[s0, 64]"], by_label["matmul\\nf32[s0, 32]"]) in edges
    labels, edges = drawn["kernels"]
    by_label = {label: name for name, label in labels.items()}
    product = next(name for label, name in by_label.items() if label.endswith("contraction"))
    softmax = next(name for label, name in by_label.items() if "exp" in label)
    assert edges == {(product, softmax)} and len(labels) == 3
    labels, edges = drawn["program"]
    names = [
        sorted(x.split("\\n")[0] for x in drawn[level][0].values())
        for level in ("kernels", "program")
    ]
    assert names[0] == names[1]
    assert len(edges) == 1


def test_constants_and_views_are_no_kernels_but_connect_them(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "views.gex"
    path.write_text("""graph main(%x: f32[4, 4]) -> (f32[4]) {
  %one = constant() {value = f32[](1.0)} : f32[]
  %y = matmul(%x, %x) : f32[4, 4]
  %flat = reshape(%y) {shape = [16]} : f32[16]
  %part = slice(%flat) {starts = [0], sizes = [4], steps = [1]} : f32[4]
  %s = cumsum(%part) {axis = 0} : f32[4]
  %z = add(%s, %one) : f32[4]
  return %z
}
""")
    done = command("dump", path, "--level=kernels", "--dot", "--no-fuse")
    assert done.returncode == 0, done.stderr
    labels, edges = dot(done.stdout)
    assert not any(label.startswith("constant") for label in labels.values())
    assert len(edges) == len(labels) - 1  # a chain


def test_regions_are_clusters_and_names_are_quoted(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "if.gex"
    path.write_text("""graph "a \\"b\\"" (%c: bool[], %x: f32[4]) -> (f32[4]) {
  %y = if(%c, %x) regions(
    graph then(%a: f32[4]) -> (f32[4]) {
      %0 = neg(%a) : f32[4]
      return %0
    },
    graph else(%a: f32[4]) -> (f32[4]) {
      return %a
    }) : f32[4]
  return %y
}
""")
    done = command("dump", path, "--dot")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('digraph "a \\"b\\"" {')
    cluster = done.stdout.split("subgraph cluster_")[1].split("}")[0]
    assert "neg" in cluster
    program = command("dump", path, "--level=program", "--dot").stdout
    assert program.count("subgraph cluster_") == 2
    dot(program)


def test_all_levels_are_dumped_as_json(graph: pathlib.Path) -> None:
    model = json.loads(command("dump", graph, "--json").stdout)
    check_links(model)
    assert "timeline" not in model and model["sizes"] == {}
    assert {node["op"] for node in model["nodes"]} >= {"matmul"}


def test_a_compiled_function_is_drawn() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: torch.softmax(x @ x, 1), backend="gex")
    compiled(torch.ones(4, 4))
    runner = gex.reports()[-1].runner
    assert runner is not None
    assert any(label.startswith("matmul") for label in dot(runner.graphviz())[0].values())
    assert dot(runner.graphviz("kernels"))[1]
    with pytest.raises(gex.UserError, match="unknown level 'kernel'"):
        runner.graphviz("kernel")


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 128)
        self.second = torch.nn.Linear(128, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x))).softmax(-1)


def test_calls_in_a_block_are_reported(tmp_path: pathlib.Path) -> None:
    torch._dynamo.reset()
    page = tmp_path / "report.html"
    compiled = torch.compile(Model().eval(), backend="gex")
    x = torch.randn(16, 64)
    with torch.no_grad(), gex.report(page) as recording:
        for _ in range(3):
            compiled(x)
    assert page.stat().st_size > 50_000
    assert recording.report is not None
    model = recording.report.model
    (only,) = model["graphs"]
    check_links(only)
    check_timeline(only)
    assert len(only["timeline"]["calls"]) == 3
    assert {"dynamo", "aot", "passes"} <= {name for name, _ in model["first_call"]}
    assert any("test_report.py" in node.get("at", "") for node in only["nodes"])


def test_a_compiled_function_is_reported_with_and_without_arguments() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: torch.sin(x) * 2 + x, backend="gex")
    x = torch.randn(1000)
    report = gex.report(compiled, x)
    assert "timeline" in report.model["graphs"][0]
    assert report._repr_html_().startswith("<iframe srcdoc=")
    assert str(report).startswith("report of 1 graph;")
    again = gex.report(compiled).model["graphs"]
    assert len(again) == 1 and "timeline" not in again[0]


def test_calls_through_pytorch_are_in_the_report_and_on_the_timeline() -> None:
    torch._dynamo.reset()

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.svdvals(x) + 1

    with pytest.warns(gex.FallbackWarning):
        model = gex.report(fn, torch.randn(8, 8)).model
    (only,) = model["graphs"]
    (facts,) = model["extra"]["graphs"].values()
    assert facts["calls"] and facts["calls"][0]["reason"]
    called = {k for k, step in enumerate(only["steps"]) if step["kind"] == "call"}
    assert called and called <= {event[0] for event in only["timeline"]["events"]}


def test_an_error_in_the_block_is_passed_on_and_ends_the_trace(tmp_path: pathlib.Path) -> None:
    page = tmp_path / "report.html"
    with pytest.raises(ValueError, match="mine"), gex.report(page):
        raise ValueError("mine")
    assert not page.exists()
    keeper = _gex.TraceKeeper()
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x + 1, backend="gex")
    compiled(torch.ones(3))
    assert not any(keeper.has(r.runner) for r in gex.reports() if r.runner is not None)


def test_a_report_that_can_not_be_written_is_refused_before_the_calls(
    tmp_path: pathlib.Path,
) -> None:
    with pytest.raises(ValueError, match=r"report\.pdf.*a page"):
        gex.report(tmp_path / "report.pdf")
    with pytest.raises(FileNotFoundError, match=r"no folder.*missing"):
        gex.report(tmp_path / "missing" / "report.html")


def test_what_is_neither_a_path_nor_a_function_is_refused() -> None:
    with pytest.raises(TypeError, match="path of a page or a compiled function"):
        gex.report(3)
    with pytest.raises(TypeError, match="takes no call arguments"):
        gex.report("report.html", torch.ones(1))
    with pytest.raises(TypeError, match="not compiled"):
        gex.report(lambda x: x)


def test_a_benchmark_shows_what_a_commit_changed(
    graph: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    assert (
        command("report", graph, "--dim=s0=4", "-o", tmp_path / "mlp.0000000.json").returncode == 0
    )
    words = [sys.executable, ROOT / "bench" / "reports.py", "--jobs=mlp", "--calls=3"]
    done = subprocess.run(
        [*words, "--folder", tmp_path], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    line = done.stdout.splitlines()[-1]
    assert re.match(r"mlp: \S+ to \S+ ms \([+-][\d.]+ %\), \d+", line), line
    begin = (tmp_path / "mlp.html").read_text().split('type="application/json">')[1]
    old, new = json.loads(begin.split("</script>")[0])
    assert (old["title"], new["title"].split()[0]) == (str(graph), "mlp")


def test_candidates_of_products_have_times_without_autotune(graph: pathlib.Path) -> None:
    (shown,) = written(graph)["graphs"]
    assert shown["tuned"] == []
    (product,) = (step for step in shown["steps"] if "matmul" in step["name"])
    names = [name for name, _ in product["candidates"]]
    assert len(names) >= 2 and len(set(names)) == len(names)
    assert not any(name.startswith("by_rule") for name in names)
    assert all(microseconds > 0 for _, microseconds in product["candidates"])
    assert not any("candidates" in step for step in shown["steps"] if step is not product)


def test_explain_gives_the_whole_reason_why_neighbours_are_not_fused() -> None:
    def both_axes(x: torch.Tensor) -> torch.Tensor:
        return (x * x.sum(1, keepdim=True)).sum(0)

    compiled = torch.compile(both_axes, backend="gex")
    compiled(torch.randn(8, 16))
    lines = [line for line in str(gex.explain(compiled)).splitlines() if "not fused x" in line]
    assert lines == ["  not fused x1: they reduce over different axes of [8, 16]"]
