"""The C++ tests that run on a GPU machine are compiled there without GoogleTest: they must compile
with the small replacement of it in tests/gpu/shim."""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


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
    command = ["g++", "-std=c++20", "-fsyntax-only", "-w", "-Isrc", "-Iinclude", "-Itests/gpu/shim"]
    result = subprocess.run(
        [*command, '-DGEX_TEST_DATA=""', source], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr[-3000:]
