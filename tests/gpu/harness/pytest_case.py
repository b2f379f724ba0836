"""One test of pytest, by its node id, in a process that is reused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

_OPTIONS = ["-q", "--tb=short", "--show-capture=no", "-p", "no:cacheprovider", "-W", "ignore"]


def units(paths: list[str]) -> list[str]:
    """The node ids of all tests of these files and folders; collected in another process."""
    command = [sys.executable, "-m", "pytest", "--collect-only", *_OPTIONS, *paths]
    found = subprocess.run(command, capture_output=True, text=True, env=os.environ.copy())
    ids = [line for line in found.stdout.splitlines() if re.match(r"\S+\.py::", line)]
    if found.returncode not in (0, 5):
        raise RuntimeError(f"collecting {paths} failed:\n{found.stdout[-3000:]}{found.stderr}")
    return ids


class _Listener:
    """Keeps what pytest reports about the one test."""

    def __init__(self) -> None:
        self.outcome, self.detail = "error", "the test was not run"
        self.figures: dict[str, Any] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.figures |= dict(report.user_properties)
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            self.outcome, self.detail = "left out", str(reason)
        elif report.failed:
            self.outcome, self.detail = "wrong", str(report.longrepr)[-1500:]
        elif report.when == "call":
            self.outcome, self.detail = "right", ""


def make(arguments: list[str]) -> Callable[[str], dict[str, Any]]:
    def run(unit: str) -> dict[str, Any]:
        listener = _Listener()
        pytest.main([*_OPTIONS, unit], plugins=[listener])
        return {
            "outcome": listener.outcome,
            "detail": listener.detail,
            "figures": listener.figures,
        }

    return run
