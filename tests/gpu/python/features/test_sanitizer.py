"""compute-sanitizer over the C++ tests of the CUDA program and over a few compiled functions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from glob import glob
from pathlib import Path

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)

_FOUND = shutil.which("compute-sanitizer") or next(
    iter(glob("/usr/local/cuda*/bin/compute-sanitizer")), None
)
needs_sanitizer = pytest.mark.skipif(_FOUND is None, reason="compute-sanitizer is not installed")

_SAMPLE = """
import torch
run = torch.compile(
    lambda x, i: (torch.softmax(x @ x.t(), -1)[i], x.cumsum(0), x.sort(1).values, x.sum()),
    backend="npugraph_ex",
)
x = torch.randn(40, 40, device="cuda")
i = torch.randint(0, 40, (9,), device="cuda")
for _ in range(3):
    results = run(x, i)
torch.cuda.synchronize()
"""


def _sanitize(tool: str, command: list[str]) -> str:
    assert _FOUND is not None
    options = ["--tool", tool, "--error-exitcode", "9", "--target-processes", "all"]
    environment = dict(os.environ, PYTORCH_NO_CUDA_MEMORY_CACHING="1")
    done = subprocess.run(
        [_FOUND, *options, *command], capture_output=True, text=True, env=environment, timeout=140
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-4000:]
    assert "ERROR SUMMARY: 0 errors" in output or "0 hazards" in output, output[-2000:]
    return output


@needs_sanitizer
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_compiled_functions(tool: str) -> None:
    _sanitize(tool, [sys.executable, "-c", _SAMPLE])


@needs_sanitizer
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_programs_of_the_runtime(tool: str) -> None:
    from gex import _gex

    binary = Path(_gex.__file__).parents[2] / "gpu" / "test_gpu"
    if not binary.exists():
        pytest.skip(f"{binary} is not built")
    _sanitize(tool, [str(binary), "CudaProgram.replays"])
