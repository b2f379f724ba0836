"""How often a call captures, launches and waits; capture by the user; streams, threads, fork."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import driver_counts
import pytest
import torch
from cuda_models import Block, Gpt, close, compiled, mlp, run_python, steady
from torch import nn

import gex

_ZOO = ("bert", "vit", "gpt2", "qwen3")


def _model(name: str, dtype: torch.dtype) -> tuple[nn.Module, dict[str, Any]]:
    if name == "mlp":
        return mlp().to(dtype), {"input": torch.randn(16, 64, device="cuda", dtype=dtype)}
    pytest.importorskip("transformers")
    from zoo.families import MODELS

    model = MODELS[name]
    inputs = {
        key: value.to("cuda", dtype if value.is_floating_point() else None)
        if isinstance(value, torch.Tensor)
        else value
        for key, value in model.inputs(2).items()
    }
    return model.build().cuda().to(dtype), inputs


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("name", ["mlp", *_ZOO])
@torch.no_grad()
def test_one_graph_launch_a_call(
    name: str, dtype: torch.dtype, record_property: Callable[[str, object], None]
) -> None:
    module, inputs = _model(name, dtype)
    run = compiled(module)
    counted, graphs = steady(lambda: run(**inputs), calls=5)
    for counter in ("launches", "graph_launches", "single_launches", "host_calls"):
        record_property(f"{counter} a call", counted[counter] / 5)
    calls = [call.op for graph in graphs for call in graph.calls]
    assert not calls, calls
    assert (counted["graph_launches"], counted["single_launches"]) == (5, 0), dict(counted)
    assert counted["recordings"] == 0


def _growing(name: str) -> tuple[Callable[..., Any], Callable[[int], torch.Tensor], float]:
    torch.manual_seed(0)
    if name == "mlp":
        return mlp(), lambda n: torch.randn(n, 64, device="cuda"), 1e-4
    if name == "block":
        return Block().cuda().eval(), lambda n: torch.randn(1, n, 64, device="cuda"), 1e-3
    if name == "gpt":
        model: nn.Module = Gpt().cuda().eval()
        return model, lambda n: torch.randint(0, 100, (1, n), device="cuda"), 1e-3
    pytest.importorskip("transformers")
    from zoo.families import MODELS

    whole = MODELS[name].build().cuda()
    limit = whole.config.max_position_embeddings
    if limit < 160:
        whole.config.max_position_embeddings = 160
    return (
        lambda ids: whole(input_ids=ids, use_cache=False).logits,
        lambda n: torch.randint(3, 200, (1, n), device="cuda"),
        1e-3,
    )


@pytest.mark.parametrize("name", ["mlp", "block", "gpt", "qwen3"])
@torch.no_grad()
def test_lengths_24_to_151_need_at_most_4_captures(
    name: str, record_property: Callable[[str, object], None]
) -> None:
    function, make, tolerance = _growing(name)
    run = compiled(function, dynamic=True)
    with gex.collect() as graphs:
        for length in range(24, 152):
            x = make(length)
            close(run(x), function(x), tolerance)
    captures = [len(graph.runner.captures) for graph in graphs if graph.runner is not None]
    made = [graph.runner.counters["captures"] for graph in graphs if graph.runner is not None]
    record_property("graphs", len(graphs))
    record_property("captures", made)
    assert sum(made) <= 4, [graph.text() for graph in graphs]
    assert sum(captures) <= 4


@torch.no_grad()
def test_a_steady_call_does_not_wait_for_the_device() -> None:
    for model, make in (
        (mlp(), lambda: torch.randn(16, 64, device="cuda")),
        (Gpt().cuda().eval(), lambda: torch.randint(0, 100, (2, 20), device="cuda")),
    ):
        run = compiled(model)
        x = make()
        for _ in range(4):
            run(x)
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            results = [run(x) for _ in range(20)]
        finally:
            torch.cuda.set_sync_debug_mode("default")
        close(results[-1], model(x), 1e-3)


_COUNTED = """
import json, sys, torch
import driver_counts
from cuda_models import Gpt, compiled, mlp
found = {}
with torch.no_grad():
    for name, model, x in (
        ("mlp", mlp(), torch.randn(16, 64, device="cuda")),
        ("gpt", Gpt().cuda().eval(), torch.randint(0, 100, (2, 20), device="cuda")),
    ):
        run = compiled(model)
        for _ in range(8):
            run(x)
        torch.cuda.synchronize()
        before = driver_counts.counts()
        for _ in range(10):
            run(x)
        torch.cuda.synchronize()
        found[name] = driver_counts.counts() - before
print(json.dumps(found))
"""


def test_driver_calls_of_a_steady_call(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    import json

    environment = driver_counts.build(tmp_path)
    done = run_python(_COUNTED, environment)
    assert done.returncode == 0, done.stderr[-3000:]
    for name, counts in json.loads(done.stdout.splitlines()[-1]).items():
        record_property(f"driver calls of 10 calls of {name}", counts)
        waits = {k: v for k, v in counts.items() if k in driver_counts.WAITS}
        assert not waits, waits
        assert counts["cuGraphLaunch"] == 10, counts
        assert not counts.get("cuLaunchKernel") and not counts.get("cuLaunchKernelEx"), counts
        assert counts.get("cuMemAlloc_v2", 0) == 0, counts


@torch.no_grad()
def test_a_call_inside_a_capture_of_the_user() -> None:
    model = mlp()
    run = compiled(model, dynamic=True)
    x = torch.randn(16, 64, device="cuda")
    for rows in (16, 16, 17, 40):
        run(torch.randn(rows, 64, device="cuda"))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run(x)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = run(x)
        z = run(y) + 1
    for turn in range(5):
        x.copy_(torch.randn(16, 64, device="cuda"))
        graph.replay()
        other = torch.randn(16 + turn, 64, device="cuda")
        close(run(other), model(other))
        close(y, model(x))
        close(z, model(model(x)) + 1)
        graph.replay()
        close(z, model(model(x)) + 1)


@torch.no_grad()
def test_threads_with_streams_of_their_own() -> None:
    model = Block().cuda().eval()
    torch._dynamo.reset()
    run = torch.compile(model, backend="npugraph_ex", dynamic=True)
    for rows in (8, 9, 30):
        run(torch.randn(1, rows, 64, device="cuda"))
    problems: list[str] = []

    def work(number: int) -> None:
        try:
            with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
                generator = torch.Generator("cuda").manual_seed(number)
                for turn in range(100):
                    rows = 8 + (turn * 7 + number) % 40
                    x = torch.randn(1, rows, 64, device="cuda", generator=generator)
                    got = run(x)
                    want = model(x)
                    close(got, want, 1e-3)
        except Exception as problem:  # reported by the main thread
            problems.append(f"thread {number}: {problem}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems[:2]


@torch.no_grad()
def test_one_thread_that_changes_streams() -> None:
    model = mlp()
    run = compiled(model)
    x = torch.randn(512, 64, device="cuda")
    run(x)
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(4)]
    results = []
    for turn in range(200):
        stream = streams[turn % 4]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            results.append(run(x + turn % 5))
    torch.cuda.synchronize()
    for turn, got in enumerate(results):
        close(got, model(x + turn % 5))


_FORK = """
import os, sys, torch
from cuda_models import compiled, mlp
run = compiled(mlp())
x = torch.randn(16, 64, device="cuda")
with torch.no_grad():
    run(x)
    torch.cuda.synchronize()
    child = os.fork()
    if child == 0:
        try:
            run(x)
            os._exit(2)
        except Exception as problem:
            print(f"{type(problem).__name__}: {problem}", flush=True)
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    run(x)
    torch.cuda.synchronize()
    print("status", status)
"""


def test_a_forked_child_is_refused() -> None:
    done = run_python(_FORK)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "status 0" in done.stdout, done.stdout + done.stderr
    assert "fork" in done.stdout, done.stdout
