"""gex in one process with other libraries, threads and forks."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
import torch
from torch import nn

import gex
from conftest import assert_same

USE_ALL = """
import torch
x = torch.randn(4, 4)
fn = lambda x: torch.softmax(x @ x, -1) + 1
assert torch.allclose(torch.compile(fn, backend="gex")(x), fn(x), atol=1e-5)
import gex, onnxruntime
assert gex.reports()[-1].native_share == 1.0
assert onnxruntime.get_available_providers()
print("fine")
"""


@pytest.mark.parametrize(
    "order", itertools.permutations(["torch", "onnxruntime", "gex"]), ids="-".join
)
def test_imports_in_every_order(order: tuple[str, ...]) -> None:
    pytest.importorskip("onnxruntime")
    program = "".join(f"import {name}\n" for name in order) + USE_ALL
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout.endswith("fine\n"), done.stderr


def test_gex_alone_does_not_import_torch() -> None:
    program = "import sys, gex; assert 'torch' not in sys.modules; print(gex.Dim(3))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout == "3\n", done.stderr


def in_four_threads(work: Callable[[int], None]) -> None:
    problems: list[BaseException] = []

    def guarded(seed: int) -> None:
        try:
            work(seed)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=guarded, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_threads_call_one_compiled_function() -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
    compiled = torch.compile(model, backend="gex", dynamic=True)
    with torch.no_grad():
        compiled(torch.randn(2, 16))

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for i in range(50):
                x = torch.randn(2 + (seed + i) % 5, 16, generator=generator)
                assert_same(compiled(x), model(x))

    in_four_threads(work)


def test_threads_with_calls_through_python() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x * 2 + torch.eye(4)) + 1

    compiled = torch.compile(fn, backend="gex")
    compiled(torch.eye(4))

    def work(seed: int) -> None:
        for i in range(30):
            x = torch.eye(4) * (seed + i + 1)
            assert_same(compiled(x), fn(x))

    in_four_threads(work)


def test_a_call_inside_a_call() -> None:
    inner = torch.compile(lambda x: x * 2 + 1, backend="gex")

    @torch.library.custom_op("gex_tests::calls_compiled", mutates_args=())
    def calls_compiled(x: torch.Tensor) -> torch.Tensor:
        return inner(x).clone()

    @calls_compiled.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return calls_compiled(x + 1) * 3

    x = torch.randn(5)
    assert_same(torch.compile(fn, backend="gex", fullgraph=True)(x), ((x + 1) * 2 + 1) * 3)
    assert [c.op for g in gex.reports() for c in g.calls][-1] == "gex_tests.calls_compiled.default"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_works() -> None:
    program = """
import os, torch
torch.set_num_threads(1)
fn = lambda x: torch.relu(x @ x) + 1
compiled = torch.compile(fn, backend="gex")
x = torch.randn(64, 64)
compiled(x)
child = os.fork()
ok = torch.allclose(compiled(x), fn(x), atol=1e-3)
if child == 0:
    os._exit(0 if ok else 1)
assert ok and os.waitpid(child, 0)[1] == 0
print("fine")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout.endswith("fine\n"), done.stderr
