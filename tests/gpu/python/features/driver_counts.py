"""Counts gex's own calls of the CUDA driver, with a library between the two.

gex looks for the driver in the folders of GEX_CUDA_LIBRARY_PATH first. The library made here has
the entry points that src/nvidia/api.hpp names; each counts and jumps to the driver's own.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[4]
_HEAD = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
static void* driver(void) {
  static void* library;
  if (library == 0) {
    const char* path = getenv("GEX_COUNTED_DRIVER");
    library = dlopen(path == 0 ? "libcuda.so.1" : path, RTLD_NOW | RTLD_LOCAL);
    if (library == 0) { fprintf(stderr, "%s\\n", dlerror()); abort(); }
  }
  return library;
}
"""
_ENTRY = """
unsigned long count_NAME;
void* real_NAME;
__asm__(".text\\n.globl NAME\\n.type NAME, @function\\nNAME:\\n"
        "  lock incq count_NAME(%rip)\\n  jmp *real_NAME(%rip)\\n");
__attribute__((constructor)) static void find_NAME(void) { real_NAME = dlsym(driver(), "NAME"); }
"""
WAITS = (
    "cuStreamSynchronize",
    "cuEventSynchronize",
    "cuCtxSynchronize",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoHAsync_v2",
)


def symbols() -> list[str]:
    text = (_ROOT / "src" / "nvidia" / "api.hpp").read_text()
    return re.findall(r'"(cu[A-Z]\w+)"', text)


def build(folder: Path) -> dict[str, str]:
    """Builds the library in the folder; returns environment variables for a process."""
    source = folder / "counted.c"
    entries = [_ENTRY.replace("NAME", name) for name in symbols()]
    source.write_text(_HEAD + "".join(entries))
    library = folder / "libcuda.so.1"
    # -Bsymbolic: the counters are this library's own, so that code can address them directly.
    flags = ["-shared", "-fPIC", "-O1", "-Wl,-Bsymbolic", "-fvisibility=protected"]
    subprocess.run(["cc", *flags, "-o", str(library), str(source), "-ldl"], check=True)
    before = os.environ.get("GEX_CUDA_LIBRARY_PATH", "")
    environment = {"GEX_CUDA_LIBRARY_PATH": f"{folder}:{before}".rstrip(":")}
    for other in before.split(":"):
        if other and (Path(other) / "libcuda.so.1").exists():
            environment["GEX_COUNTED_DRIVER"] = str(Path(other) / "libcuda.so.1")
    return environment


@functools.cache
def _library() -> ctypes.CDLL:
    folder = os.environ["GEX_CUDA_LIBRARY_PATH"].split(":")[0]
    return ctypes.CDLL(str(Path(folder) / "libcuda.so.1"))


def counts() -> Counter[str]:
    """The calls so far, in a process started with build()'s environment."""
    return Counter(
        {name: ctypes.c_ulong.in_dll(_library(), f"count_{name}").value for name in symbols()}
    )
