"""The demo runs to its end with each of its models."""

from __future__ import annotations

from pathlib import Path

import pytest

from npu_run import run_python
from tiny_checkpoint import save_tiny_qwen3

DEMO = str(Path(__file__).parents[2] / "examples" / "demo.py")


@pytest.mark.slow
def test_checkpoint(tmp_path: Path) -> None:
    save_tiny_qwen3(tmp_path)
    done = run_python(DEMO, "--model", str(tmp_path), "--tokens", "4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "prompts with the same tokens: 3 of 3" in done.stdout
    assert done.stdout.count("\nA: ") == 3
    # No bar outside of a terminal.
    assert "\r" not in done.stderr and "npugraph_ex: 12 of 12 tokens\n" in done.stderr


@pytest.mark.slow
def test_full_width_in_half_precision() -> None:
    done = run_python(DEMO, "--full", "--layers", "1", "--tokens", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "calls through PyTorch                    -             0" in done.stdout
    assert "distance of the logits from those in f32: eager " in done.stdout


@pytest.mark.slow
def test_layers_of_a_checkpoint_are_its_own() -> None:
    done = run_python(DEMO, "--model", "somewhere", "--layers", "2")
    assert done.returncode == 2 and "--layers is given by the checkpoint" in done.stderr


@pytest.mark.slow
def test_a_folder_without_a_checkpoint_is_named(tmp_path: Path) -> None:
    done = run_python(DEMO, "--model", str(tmp_path))
    assert done.returncode == 2 and f"{tmp_path} is not a folder with a checkpoint" in done.stderr
