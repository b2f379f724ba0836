"""Programs for CUDA without a GPU: a driver library that computes on the host, tensors of the CPU.

What a process needs: `environment(folder)` in its environment, and `install()` before it compiles.
Kernels are generated, compiled (by the host's compiler) and launched as on a GPU.
`pytest --fake-gpu` runs ordinary tests this way. Where there is a GPU, `code_runner` runs the same
code on it.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_SOURCE = _ROOT / "tests" / "runtime" / "fake_cuda" / "fake_cuda.cpp"
# Kernels that the driver library has compiled, by their text; kept between runs.
_KERNELS = _ROOT / "build" / "fake_gpu_kernels"


def environment(folder: Path) -> dict[str, str]:
    """Builds the driver library in the folder."""
    library = folder / "libcuda.so.1"
    command = ["c++", "-std=c++20", "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE)]
    subprocess.run(command, check=True)
    for name in ("libnvrtc.so", "libcublas.so"):
        (folder / name).symlink_to(library.name)
    _KERNELS.mkdir(parents=True, exist_ok=True)
    variables = {
        "GEX_CUDA_LIBRARY_PATH": str(folder),
        "GEX_FAKE_CUDA_CACHE": str(_KERNELS),
        "GEX_CUDA_CONTROL_NODES": "1",
    }
    return os.environ | variables


def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def install() -> None:
    """Graphs of CPU tensors are compiled for CUDA from now on, with its value checks."""
    import torch

    from gex import _gex
    from gex.importer import graph_import
    from gex.importer.device_checks import DeviceChecks
    from gex.pipeline import runner

    # Kernels that the driver library compiles call functions of the engine.
    assert _gex is not None
    maps = Path("/proc/self/maps").read_text().splitlines()
    engine = next(line.split()[-1] for line in maps if "/libgex_core.so" in line)
    ctypes.CDLL(engine, mode=ctypes.RTLD_GLOBAL)

    options_of_cpu = runner._engine_options

    def options(request: Any) -> Any:
        found = options_of_cpu(request)
        found.target = "cuda:0"
        found.tensors_on_host = True
        return found

    runner._engine_options = options
    graph_import.CPU = torch.device("meta")  # no graph is for the CPU
    graph_import.GraphImport._notes_refusals = lambda self: DeviceChecks.are_needed(self.gm)


_PRELUDE = """
import sys
sys.path.insert(0, {tests!r})
import fake_gpu, torch, gex
import torch.nn.functional as F
if torch.cuda.is_available():
    torch.set_default_device("cuda")
    torch.backends.cudnn.allow_tf32 = False
else:
    fake_gpu.install()
from gex import report
from pytest import raises

def compiled(fn, **options):
    torch._dynamo.reset()
    return torch.compile(fn, backend="npugraph_ex", **options)
"""


def code_runner(folder: Path) -> Callable[..., None]:
    """Runs code in a process of its own over a driver library in this folder, or on the GPU of
    this machine; keywords are variables of its environment."""
    variables_of_all = (
        os.environ | {"GEX_CUDA_CONTROL_NODES": "1"} if has_gpu() else environment(folder)
    )
    variables_of_all["GEX_CACHE_DIR"] = ""  # what that driver compiles is gone with the process
    prelude = _PRELUDE.format(tests=str(Path(__file__).parent))

    def run_code(code: str, **variables: str) -> None:
        done = subprocess.run(
            [sys.executable, "-c", prelude + code],
            env=variables_of_all | variables,
            capture_output=True,
            text=True,
            timeout=400,
        )
        assert done.returncode == 0, done.stderr[-4000:]

    return run_code


def driver_counts() -> tuple[int, int]:
    """Calls of the driver that replays made so far, and bytes that they sent to the device."""
    driver = ctypes.CDLL(os.environ["GEX_CUDA_LIBRARY_PATH"] + "/libcuda.so.1")
    return driver.gex_fake_calls(), driver.gex_fake_bytes_sent()
