"""TORCH_COMPILE_DEBUG=1, the log, and the check for deadlocks."""

from __future__ import annotations

import json
import logging
import os
import pathlib
import re
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import gex
from gex import npugraph_ex
from gex._gex import Graph
from gex.debug import deadlock, debug_folder, logs
from gex.debug.capture_trace import trace_of
from gex.debug.logs import EVENT, LineFormat, logger
from gex.npugraph_ex.inference import cache_compile


@pytest.fixture
def log_as_it_was() -> Iterator[None]:
    handlers, level = list(logger.handlers), logger.level
    levels = [handler.level for handler in handlers]
    yield
    for handler in logger.handlers:
        if handler not in handlers:
            handler.close()
    logger.handlers[:] = handlers
    logger.setLevel(level)
    for handler, its_level in zip(handlers, levels):
        handler.setLevel(its_level)


@pytest.fixture
def debugging(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, log_as_it_was: None
) -> Iterator[pathlib.Path]:
    """The folder in which a process with TORCH_COMPILE_DEBUG=1 makes its own."""
    monkeypatch.setenv("TORCH_COMPILE_DEBUG", "1")
    with torch._dynamo.config.patch(debug_dir_root=str(tmp_path)):
        yield tmp_path


def run_of(root: pathlib.Path) -> pathlib.Path:
    (run,) = root.glob("run_*")
    return run


def names(path: pathlib.Path) -> list[str]:
    return sorted(p.name for p in path.iterdir())


def leave_alone(gm: torch.fx.GraphModule, example_inputs: Any, config: Any) -> None:
    pass


def swap_operands(gm: torch.fx.GraphModule, example_inputs: Any, config: Any) -> None:
    (node,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)
    with gm.graph.inserting_after(node):
        swapped = gm.graph.call_function(node.target, (node.args[1], node.args[0]))
    node.replace_all_uses_with(swapped)
    gm.graph.erase_node(node)


STAGES = [
    "graph",
    "graph_after_post_grad_custom_pre_pass",
    "graph_after_optimize_noop_ops",
    "graph_after_view_to_reshape",
    "graph_after_post_grad_custom_post_pass",
]


def test_case_69_every_stage_of_forward_and_backward_is_a_file(
    debugging: pathlib.Path, device: str
) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 2 + y, -1).sum()

    options = {
        "post_grad_custom_pre_pass": leave_alone,
        "post_grad_custom_post_pass": leave_alone,
    }
    compiled = torch.compile(fn, backend="npugraph_ex", options=options)
    compiled(
        torch.randn(2, 8, requires_grad=True, device=device), torch.randn(2, 8, device=device)
    ).backward()
    run = run_of(debugging)
    assert re.fullmatch(rf"run_[\d_]+-pid_{os.getpid()}", run.name)
    assert (run / "torchdynamo" / "debug.log").exists()
    assert names(run / "npugraph_ex") == ["debug.log", "model__0"]
    model = run / "npugraph_ex" / "model__0"
    captures = [n for n in names(model) if n.endswith(".json")]
    assert names(model) == sorted(["backward", "dynamo_out_graph.txt", "forward", *captures])
    assert len(captures) == 2
    assert re.fullmatch(r"graph_\d+_id_0_rank_0_pid_\d+_ts_\d+\.json", captures[0])
    for phase in ("forward", "backward"):
        files = names(model / phase)
        assert files.pop() == "output_code.py"
        stems = [f"{i:03}_aot_{phase}_" for i in range(len(files))]
        assert all(file.startswith(stem) for file, stem in zip(files, stems))
        stages = [f.removeprefix(s).removesuffix(".txt") for f, s in zip(files, stems)]
        assert stages[: len(STAGES) + 1] == [*STAGES, "graph_after_import"]
        assert stages[-3:] == ["kernels", "program", "plan_0"]
        assert all(stage.startswith("graph_after_") for stage in stages[4:-3])
        assert phase == "backward" or "graph_after_expand" in stages, "softmax is composite"
        for file, stage in zip(files, stages):
            text = (model / phase / file).read_text()
            if stage in STAGES:
                assert "torch.ops.aten" in text
            elif stage.startswith("graph_after"):
                assert Graph.parse(text).num_nodes > 0
    assert "torch.softmax" in (model / "dynamo_out_graph.txt").read_text()


def test_case_69_folders_are_numbered_and_compile_fx_has_its_own(
    debugging: pathlib.Path, device: str
) -> None:
    for fn in (torch.exp, torch.sin):
        torch._dynamo.reset()
        torch.compile(fn, backend="npugraph_ex")(torch.ones(2, device=device))
    gm = make_fx(lambda x: (x.exp(),), tracing_mode="fake")(torch.ones(2, device=device))
    npugraph_ex.compile_fx(gm, [torch.ones(2, device=device)])(torch.ones(2, device=device))
    root = run_of(debugging) / "npugraph_ex"
    assert names(root) == ["compile__2", "debug.log", "model__0", "model__1"]
    assert names(root / "model__1")[:2] == ["dynamo_out_graph.txt", "forward"]
    assert "compile_fx" in names(root / "compile__2")
    assert "dynamo_out_graph.txt" not in names(root / "compile__2")
    assert "000_aot_forward_graph.txt" in names(root / "compile__2" / "compile_fx")


def test_case_69_ranks_have_their_own_folders(
    debugging: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    for rank in range(2):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda group=None, rank=rank: rank)
        debug_folder.ModelFolder("model")
    found = sorted(re.sub(r".*-rank", "rank", path.name) for path in debugging.iterdir())
    assert found == ["rank_0", "rank_1"]


def test_the_folder_of_a_rank_has_the_log_of_dynamo(
    debugging: pathlib.Path, monkeypatch: pytest.MonkeyPatch, device: str
) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda group=None: 3)
    torch.compile(torch.exp, backend="npugraph_ex")(torch.ones(2, device=device))
    (run,) = debugging.glob("run_*-rank_3")
    assert names(run) == ["npugraph_ex", "torchdynamo"]
    (plain,) = (path for path in debugging.iterdir() if path != run)
    assert (run / "torchdynamo/debug.log").samefile(plain / "torchdynamo/debug.log")


def test_nothing_is_written_without_the_environment(tmp_path: pathlib.Path, device: str) -> None:
    with torch._dynamo.config.patch(debug_dir_root=str(tmp_path)):
        torch.compile(torch.exp, backend="npugraph_ex")(torch.ones(2, device=device))
    assert list(tmp_path.iterdir()) == []


SCRIPTED = {
    "sizes": lambda x, i: (x[i] * float("inf")).sum(0),
    "branch": lambda x, i: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)),
    "constant": lambda x, i: x + torch.tensor([1.5, 2.5, 3.5], device=x.device),
    "mutation": lambda x, i: x.add_(1).relu(),
}


def written_script(debugging: pathlib.Path, name: str, device: str) -> pathlib.Path:
    fn = torch.compile(SCRIPTED[name], backend="npugraph_ex", dynamic=True)
    fn(torch.randn(4, 3, device=device), torch.tensor([0, 1], device=device))
    (script,) = debugging.rglob("output_code.py")
    return script


def test_case_70_the_written_script_runs_by_itself(debugging: pathlib.Path, device: str) -> None:
    script = written_script(debugging, "sizes", device)
    package = os.path.dirname(os.path.dirname(gex.__file__))
    result = subprocess.run(
        [sys.executable, script],
        env={**os.environ, "TORCH_COMPILE_DEBUG": "0", "PYTHONPATH": package},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "float32[3]\n"
    assert "kernel(arguments)" in script.read_text()


@pytest.mark.parametrize("name", SCRIPTED)
def test_case_70_scripts_of_all_kinds_of_graphs_run(
    debugging: pathlib.Path,
    name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    device: str,
) -> None:
    script = written_script(debugging, name, device)
    monkeypatch.setenv("TORCH_COMPILE_DEBUG", "0")
    runpy.run_path(str(script), run_name="__main__")
    assert "float32[" in capsys.readouterr().out


def test_strided_inputs_have_the_recorded_strides() -> None:
    from gex.pipeline.output_code_runtime import strided

    for dtype in (torch.float16, torch.int64, torch.bool, torch.complex64):
        x = strided([3, 2], [1, 4], dtype)
        assert (x.shape, x.stride(), x.dtype) == ((3, 2), (1, 4), dtype)
    assert strided([0, 2], [2, 1], torch.float32).numel() == 0


# --- the log --------------------------------------------------------------------------------


class Lines(logging.Handler):
    def __init__(self, level: int = logging.NOTSET) -> None:
        super().__init__(level)
        self.lines: list[str] = []
        self.setFormatter(LineFormat())

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def test_lines_of_the_log(log_as_it_was: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert logging.getLogger("npugraph_ex") is logger and logger.level == logging.ERROR
    logger.warning("not shown")
    logger.error("shown %d", 1)
    line = capsys.readouterr().out
    assert re.fullmatch(
        rf"\[ERROR\] NPUGRAPH_EX\({os.getpid()},python[\d.]*\):"
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \d{3}\.\d{3} "
        r"\[test_npugraph_ex_debug\.py:\d+\]\d+ shown 1\n",
        line,
    )
    logger.setLevel(EVENT)
    logger.log(EVENT, "an event")
    assert capsys.readouterr().out.startswith("[EVENT] NPUGRAPH_EX(")


def test_debug_messages_are_not_logged_at_info(log_as_it_was: None, device: str) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    told: dict[int, str] = {}
    for level in (logging.INFO, logging.DEBUG):
        lines = Lines()
        logger.addHandler(lines)
        logger.setLevel(level)
        torch._dynamo.reset()
        options = {"post_grad_custom_pre_pass": swap_operands}
        run = torch.compile(fn, backend="npugraph_ex", dynamic=False, options=options)
        for _ in range(2):
            run(torch.ones(2, device=device), torch.ones(2, device=device))
        told[level] = "\n".join(lines.lines)
        logger.removeHandler(lines)
    assert told[logging.INFO] == ""
    text = told[logging.DEBUG]
    assert "After fx graph pass(post_grad_custom_pre_pass) optimization" in text
    assert "removed: add\n" in text and "added: add_tensor" in text
    assert "key [] not found, captured: first call" in text
    assert "key [] found, no recapture needed" in text
    for part in ("key generation", "input processing", "parameter update"):
        costs = re.findall(rf"\[npugraph_ex overhead\] graph_\d+: {part} (\S+) us", text)
        assert len(costs) == 2
        assert all(0 <= float(cost) < 1e6 for cost in costs)
    assert not re.search(r"(key generation|input processing) 0\.0 us", text)
    assert "memory of temporaries" in text


def test_the_debug_folder_has_the_log(debugging: pathlib.Path, device: str) -> None:
    torch.compile(lambda x: x.exp() + 1, backend="npugraph_ex")(torch.ones(2, device=device))
    text = (run_of(debugging) / "npugraph_ex" / "debug.log").read_text()
    assert "[DEBUG] NPUGRAPH_EX(" in text
    assert "After graph all passes optimization" in text
    assert "class Graph0(torch.nn.Module)" in text


def test_a_table_of_nodes_shows_changes() -> None:
    before = logs.NodeTable([("a", "add"), ("b", "mul"), ("c", "mul")])
    after = logs.NodeTable([("a", "add"), ("d", "fma")])
    text = after.change(before, "After x")
    assert text.splitlines() == [
        "After x: 3 nodes before, 2 after",
        "  removed: b, c",
        "  added: d",
        "  fma: 0 -> 1",
        "  mul: 2 -> 0",
    ]


# --- deadlocks ------------------------------------------------------------------------------


def comm(stream: int, cores: int, name: str = "c10d.all_reduce") -> dict[str, Any]:
    return {"kind": "call", "name": name, "stream": stream, "cores": cores, "line": ""}


def record(stream: int, event: int) -> dict[str, Any]:
    return {"kind": "record", "name": "record", "stream": stream, "event": event, "line": ""}


def wait(stream: int, event: int) -> dict[str, Any]:
    return {"kind": "wait", "name": "wait", "stream": stream, "event": event, "line": ""}


def compute(stream: int) -> dict[str, Any]:
    return {"kind": "launch", "name": "add", "stream": stream, "line": "", "grid": 9}


def trace(path: pathlib.Path, *steps: dict[str, Any], total: int = 48) -> pathlib.Path:
    written = trace_of(steps)
    written["total cores"] = total
    for event, step in zip(written["traceEvents"], steps):
        event["args"]["cores"] = step.get("cores", 1)
    path.write_text(json.dumps(written))
    return path


def test_case_73_concurrent_kernels_that_need_too_many_cores(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trace(tmp_path / "t.json", comm(0, 48), compute(1), comm(1, 16))
    ((a, b),) = deadlock.check(path)
    assert (a.stream, b.stream) == (0, 1)
    text = capsys.readouterr().out
    assert "1 pairs" in text and "64 of 48 cores" in text and "stream 1, task 2" in text
    assert names(tmp_path) == ["t.json", "t_filtered.json", "t_filtered_deadlock_check.json"]
    filtered = json.loads((tmp_path / "t_filtered.json").read_text())["traceEvents"]
    assert [event["tid"] for event in filtered] == [0, 1], "the launch is left out"
    marked = json.loads((tmp_path / "t_filtered_deadlock_check.json").read_text())["traceEvents"]
    assert all(event["name"].startswith("dead_lock_c10d") for event in marked)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param([comm(0, 48), record(0, 1), wait(1, 1), comm(1, 16)], id="event"),
        pytest.param(
            [
                comm(0, 48),
                record(0, 1),
                wait(2, 1),
                record(2, 2),
                wait(1, 2),
                comm(1, 16),
            ],
            id="chain of events",
        ),
        pytest.param([wait(1, 1), comm(1, 16), comm(0, 48), record(0, 1)], id="listed by stream"),
        pytest.param([comm(0, 48), comm(0, 16)], id="one stream"),
        pytest.param([comm(0, 32), comm(1, 16)], id="enough cores"),
        pytest.param([compute(0), compute(1)], id="no communication"),
    ],
)
def test_case_73_no_risk(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], steps: list[dict[str, Any]]
) -> None:
    assert deadlock.check(trace(tmp_path / "t.json", *steps)) == []
    assert "no deadlock risk was detected" in capsys.readouterr().out
    assert names(tmp_path) == ["t.json", "t_filtered.json"]


def test_case_73_an_event_recorded_too_early_orders_nothing(tmp_path: pathlib.Path) -> None:
    steps = [record(0, 1), comm(0, 48), wait(1, 1), comm(1, 16)]
    assert len(deadlock.check(trace(tmp_path / "t.json", *steps))) == 1
    # Streams that wait for each other in a circle come to an end all the same.
    circle = [wait(0, 2), record(0, 1), comm(0, 48), wait(1, 1), record(1, 2), comm(1, 16)]
    assert deadlock.check(trace(tmp_path / "c.json", *circle)) is not None


def test_case_73_what_communicates() -> None:
    names_of = [
        "_c10d_functional.all_reduce.default",
        "gex_messages.send.default",
        "aten.mm.default",
    ]
    names_of.append("_c10d_functional.wait_tensor.default")
    steps = [comm(0, 1, name) for name in names_of]
    events = trace_of(steps)["traceEvents"]
    assert [event["args"]["communication"] for event in events] == [True, True, False, False]


def test_case_73_every_capture_is_checked(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str], device: str
) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch.ops.npugraph_ex.scope_enter(["_user_stream_label"], ["side"])
        y = (x @ x.t()).softmax(0)
        torch.ops.npugraph_ex.scope_exit()
        return y @ x + x.sin()

    with torch._dynamo.config.patch(debug_dir_root=str(tmp_path)):
        options = {"deadlock_check": True}
        run = torch.compile(fn, backend="npugraph_ex", dynamic=True, options=options)
        for rows in (3, 4, 3):
            torch.testing.assert_close(
                run(torch.ones(rows, 2, device=device)), fn(torch.ones(rows, 2, device=device))
            )
    assert capfd.readouterr().out.count("no deadlock risk was detected") == 2
    assert len(list(tmp_path.rglob("*_filtered.json"))) == 2


# --- ranges in PyTorch's profiler -----------------------------------------------------------


def ranges(run: Any) -> list[str]:
    with torch.profiler.profile() as profiler:
        run()
    events = sorted(profiler.events(), key=lambda event: event.time_range.start)
    known = ("npu_fx_compiler", "acl_graph", "cache_compiler", "fx_run", "gex ")
    return [event.name for event in events if event.name.startswith(known)]


def test_profilers_see_captures_and_replays(device: str) -> None:
    options = {"gears": None}
    compiled = torch.compile(torch.exp, backend="npugraph_ex", dynamic=True, options=options)
    whole, capture, replay = "npu_fx_compiler inference", "acl_graph_capture", "acl_graph_replay"
    compiled(torch.ones(3, device=device))
    assert ranges(lambda: compiled(torch.ones(3, device=device))) == [whole, replay]
    assert ranges(lambda: compiled(torch.ones(4, device=device))) == [whole, capture, replay]
    assert ranges(lambda: compiled(torch.ones(4, device=device))) == [whole, replay]


def test_ranges_of_the_backend_gex_have_names_of_its_own(device: str) -> None:
    x = torch.ones(3, device=device)
    compiled, exported = torch.compile(torch.exp, backend="gex"), gex.compile(torch.nn.GELU(), (x,))
    compiled(x)
    assert ranges(lambda: compiled(x)) == ["gex call", "gex replay"]
    assert ranges(lambda: exported(x)) == ["gex call", "gex capture", "gex replay"]


def test_profilers_list_the_kernels_of_a_call() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.relu(x @ x), -1) @ x

    compiled = torch.compile(model, backend="npugraph_ex")
    x = torch.randn(16, 16)
    compiled(x)
    with torch.profiler.profile() as profiler:
        for _ in range(3):
            compiled(x)
    runner = gex.reports()[-1].runner
    kernels = Counter(re.findall(r'^ *launch "([^"]+)"', runner.text("program"), re.M))
    assert sum(kernels.values()) >= 3
    events = {event.key: event for event in profiler.key_averages()}
    for name, launches in kernels.items():
        assert events[name].count == 3 * launches, name
        assert events[name].cpu_time_total > 0
        assert name in profiler.key_averages().table(row_limit=100)
    assert "matmul" in "".join(kernels)


def test_profilers_see_what_comes_from_the_cache(tmp_path: pathlib.Path, device: str) -> None:
    layer = torch.nn.Linear(2, 2).to(device)
    run = cache_compile(layer.forward, cache_dir=str(tmp_path))
    run(torch.ones(1, 2, device=device))
    whole, inner = "cache_compiler inference", "npu_fx_compiler inference"
    assert ranges(lambda: run(torch.ones(1, 2, device=device))) == [
        whole,
        inner,
        "acl_graph_replay",
    ]


def test_profilers_see_what_runs_eagerly(device: str) -> None:
    options = {"force_eager": True}
    compiled = torch.compile(torch.exp, backend="npugraph_ex", options=options)
    compiled(torch.ones(3, device=device))
    assert ranges(lambda: compiled(torch.ones(3, device=device))) == ["fx_run_eagerly"]


def test_ranges_are_closed_when_a_call_fails(device: str) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.log(x)

    compiled = torch.compile(fn, backend="npugraph_ex", options={"detect_nan": True})
    compiled(torch.ones(2, device=device))

    def fail() -> None:
        with pytest.raises(gex.NonFiniteValue):
            compiled(torch.tensor([-1.0, 1.0], device=device))
        compiled(torch.ones(2, device=device))

    assert ranges(fail).count("npu_fx_compiler inference") == 2
