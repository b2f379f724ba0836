"""Programs for CUDA without a GPU: a driver library that computes on the host, tensors of the CPU.

What a process needs: `environment(folder)` in its environment, and `install()` before it compiles.
Kernels are generated, compiled (by the host's compiler) and launched as on a GPU.
`pytest --fake-gpu` runs ordinary tests this way.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
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
    return dict(os.environ, GEX_CUDA_LIBRARY_PATH=str(folder), GEX_FAKE_CUDA_CACHE=str(_KERNELS))


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
