"""Ordinary tests once more, through generated CUDA text (`pytest --fake-gpu`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_TESTS = Path(__file__).resolve().parent
_MODELS = ("bert", "gpt2", "llama", "qwen3", "t5", "vit", "opt", "roberta", "mistral", "clip")


def _passes(file: str, *selection: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--fake-gpu", str(_TESTS / file), *selection]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stdout[-4000:]


def test_a_tenth_of_the_operators() -> None:
    # The index that `mode` returns is not eager's there.
    _passes("test_ops_vs_torch.py", "-m", "not slow", "-k", "compiled and not mode-compiled")


@pytest.mark.slow
def test_models() -> None:
    names = " or ".join(f"{name}-static]" for name in _MODELS)
    _passes("test_zoo.py", "-k", names)
