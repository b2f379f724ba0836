"""Ordinary tests once more, through generated CUDA text (`pytest --fake-gpu`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_TESTS = Path(__file__).resolve().parent
_MODELS = (
    "bert", "clip", "distilbert", "gpt2", "llama", "mistral", "mt5", "opt", "qwen3", "roberta",
    "t5", "vit",
)  # fmt: skip


def _passes(record: Path, *selection: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--fake-gpu", *selection]
    # Runs of models for CUDA are no results of the CPU.
    environment = dict(os.environ, GEX_ZOO_RECORD=str(record))
    done = subprocess.run(
        command, cwd=_TESTS, env=environment, capture_output=True, text=True, timeout=1500
    )
    assert done.returncode == 0, done.stdout[-4000:]


def test_a_tenth_of_the_operators(tmp_path: Path) -> None:
    # The index that `mode` returns is not eager's there.
    chosen = "compiled and not mode-compiled"
    _passes(tmp_path / "zoo.jsonl", "test_ops_vs_torch.py", "-m", "not slow", "-k", chosen)


@pytest.mark.slow
def test_models(tmp_path: Path) -> None:
    names = [f"test_zoo.py::test_model[{name}-static]" for name in _MODELS]
    names.append("test_zoo.py::test_model[siglip_vision-dynamic]")
    _passes(tmp_path / "zoo.jsonl", *names)
