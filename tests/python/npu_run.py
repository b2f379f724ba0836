"""Starts `python -m gex.npu` in a separate process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parent / "npu_scripts"


def run_python(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=600, cwd=cwd
    )


def run_npu(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "gex.npu", *arguments, cwd=cwd)


def succeed(*arguments: str, cwd: Path | None = None) -> str:
    """The output of the program, which must succeed."""
    done = run_npu(*arguments, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
