"""The C++ tests that run on a GPU machine are compiled there without CMake and GoogleTest: their
sources must all be listed, and compile with the replacement of GoogleTest in tests/gpu/shim."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("GEX_BUILD_DIR", ROOT / "build"))  # has the headers of the ops


def sources() -> list[str]:
    """The list in tests/gpu/build, with its braces expanded."""
    listed = re.search(r"^sources=\((.*?)\)", (ROOT / "tests/gpu/build").read_text(), re.S | re.M)
    assert listed is not None
    found = []
    for word in listed.group(1).split():
        parts = re.split(r"\{(.*?)\}", word)
        choices = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
        found += ["".join(choice) for choice in product(*choices)]
    return found


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("source", sources())
def test_gpu_test_sources_compile_without_googletest(source: str) -> None:
    folders = [f"-I{folder}" for folder in ("src", "include", BUILD / "include", "tests/gpu/shim")]
    names = ['-DGEX_TEST_DATA=""', '-DGEX_BUILD_DIR=""']
    command = ["g++", "-std=c++20", "-fsyntax-only", "-w", *folders, *names, source]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]


KERNELS = "tests/gpu/kernels/build"
# Included by the sources of the kernels' program, whose other functions it does not call.
NOT_LINKED = {
    "src/backend/backend.cpp",
    "src/backend/cpu/generator.cpp",
    "src/backend/cuda/persistent_helpers.cpp",
    "src/program/program.cpp",
    "src/target/target.cpp",
}


def included(sources: list[str]) -> set[str]:
    """The project's headers that the sources include, directly or not."""
    found: set[str] = set()
    pending = list(sources)
    while pending:
        file = pending.pop()
        for name in re.findall(r'^#include "(.*?)"', (ROOT / file).read_text(), re.M):
            folders = ("src", "include", "tests", "tests/codegen", str(Path(file).parent))
            paths = [f"{folder}/{name}" for folder in folders]
            header = next((path for path in paths if (ROOT / path).exists()), None)
            if header is not None and header not in found:
                found.add(header)
                pending.append(header)
    return found


def test_kernel_sources_are_complete() -> None:
    command = [KERNELS, "--sources"]
    listed = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    needed = {header.removesuffix(".hpp") + ".cpp" for header in included(listed)}
    missing = {source for source in needed if (ROOT / source).exists()} - set(listed)
    assert missing == NOT_LINKED, f"list them in {KERNELS}, or here if it links without them"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_kernels_are_written_without_cmake(tmp_path: Path) -> None:
    result = subprocess.run([KERNELS, str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-3000:]
    cases = json.loads((tmp_path / "cases.json").read_text())
    texts = "".join(file.read_text() for file in tmp_path.glob("kernels_*.cu"))
    assert len(cases) > 100
    assert all(case["function"] in texts for case in cases)
