"""What repeated compilation of a function leaves behind."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from typing import Any

import pytest
import torch

import gex


def forward(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.relu(x @ w) + 1, -1).sum(0)


def live_runners() -> int:
    gc.collect()
    return sum(type(thing) is gex._gex.Runner for thing in gc.get_objects())


def test_nothing_that_runs_a_graph_outlives_its_function() -> None:
    torch._dynamo.reset()
    before = live_runners()
    x, w = torch.randn(8, 16), torch.randn(16, 16, requires_grad=True)
    for _ in range(4):
        torch._dynamo.reset()
        torch.compile(forward, backend="gex")(x, w).sum().backward()
        compiled = gex.compile(forward, (x, w.detach()))
        compiled(x, w.detach())
    assert gex.reports()[-1].runner is not None
    assert live_runners() > before
    del compiled
    torch._dynamo.reset()
    assert live_runners() == before
    last = gex.reports()[-1]
    assert last.runner is None
    assert last.native > 0 and "native nodes" in last.text()


def test_a_report_keeps_no_nodes() -> None:
    seen: list[weakref.ref] = []

    def watching(gm: torch.fx.GraphModule, *_: Any) -> None:
        seen.extend(weakref.ref(node) for node in gm.graph.nodes)

    options = {"post_grad_custom_post_pass": watching}
    torch.compile(forward, backend="npugraph_ex", options=options)(
        torch.randn(8, 16), torch.randn(16, 16)
    )
    torch._dynamo.reset()
    gc.collect()
    assert seen and all(node() is None for node in seen)


_GROWTH = """
import ctypes, gc, sys, warnings
warnings.simplefilter("ignore")
import torch, gex
sys.path.insert(0, {folder!r})
from test_recompiles import forward

x, w = torch.randn(8, 16), torch.randn(16, 16)

def resident():
    torch._dynamo.reset()
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def compile_often(backend, count):
    for _ in range(count):
        torch._dynamo.reset()
        torch.compile(forward, backend=backend)(x, w)

# Both begin with what they keep once.
for backend in ("aot_eager", "gex"):
    compile_often(backend, 60)
for backend in ("aot_eager", "gex"):
    before = resident()
    compile_often(backend, 60)
    print((resident() - before) / 60 / 2**20)
"""


@pytest.mark.slow
def test_growth_over_sixty_recompiles() -> None:
    script = _GROWTH.format(folder=__file__.rpartition("/")[0])
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    of_eager, of_gex = map(float, run.stdout.split())
    assert of_gex < of_eager + 0.04, f"{of_gex:.3f} MiB for each compile, aot_eager {of_eager:.3f}"
