"""Ctrl-C while a compiled loop runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

TORCH = """
import torch

@torch.compile(backend="gex", fullgraph=True)
def count(n):
    return torch.while_loop(lambda i: i < n, lambda i: (i + 1,), (torch.tensor(0),))

print(count(torch.tensor(3))[0].item(), flush=True)
try:
    count(torch.tensor(1 << 60))
except KeyboardInterrupt:
    print("interrupted", count(torch.tensor(4))[0].item())
"""

ES = """
import numpy as np
from gex import es

builder = es.EsGraphBuilder("count")
n = builder.CreateInput(0, "n", "i64", [])
zero = builder.CreateInput(1, "zero", "i64", [])
(result,) = es.while_([zero, n], lambda i, n: i < n, lambda i, n: i + 1)
program = builder.Build([result]).compile()
print(program.run([np.array(3), np.array(0)])[0], flush=True)
try:
    program.run([np.array(1 << 60), np.array(0)])
except KeyboardInterrupt:
    print("interrupted", program.run([np.array(4), np.array(0)])[0])
"""


def receive_sigint() -> None:
    """Shells start background jobs with SIGINT ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("script", [TORCH, ES], ids=["torch", "es"])
def test_a_loop_without_an_end_is_interrupted(script: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ},
        preexec_fn=receive_sigint,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "3\n", process.communicate()
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
        assert out == "interrupted 4\n", errors
    finally:
        process.kill()
        process.wait()
