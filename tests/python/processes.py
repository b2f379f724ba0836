"""Commands that must succeed."""

from __future__ import annotations

import os
import pathlib
import subprocess


def run(*command: str | pathlib.Path, cwd: pathlib.Path, **environment: str) -> str:
    """What it prints. Variables are beside those of this process."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
