"""Runs units in worker processes: a hang or crash affects only its own unit."""

from __future__ import annotations

import json
import queue
import select
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
START_LIMIT = 240  # seconds until a worker has imported what it needs


@dataclass(frozen=True)
class Pool:
    command: list[str]  # of a worker; see worker.py
    environment: dict[str, str]
    logs: Path  # a folder
    jobs: int
    unit_limit: float  # seconds
    deadline: float  # of time.monotonic(): no unit is started after it

    def run(self, units: list[str], done: Callable[[str, dict[str, Any]], None]) -> None:
        """Calls `done` with each unit's answer, from several threads."""
        waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        for unit in units:
            waiting.put(unit)
        self.logs.mkdir(parents=True, exist_ok=True)
        count = min(self.jobs, len(units))
        threads = [
            threading.Thread(target=self._work, args=(i, waiting, done)) for i in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(
        self,
        number: int,
        waiting: queue.SimpleQueue[str],
        done: Callable[[str, dict[str, Any]], None],
    ) -> None:
        worker: _Worker | None = None
        failed_starts = 0
        while time.monotonic() < self.deadline and failed_starts < 3:
            if worker is None:
                worker = _Worker(self.command, self.environment, self.logs / f"worker{number}.log")
                if not worker.is_ready():
                    failed_starts += 1
                    print(f"worker {number} did not start: {worker.last_words()}", flush=True)
                    worker.stop()
                    worker = None
                    continue
                failed_starts = 0
            try:
                unit = waiting.get_nowait()
            except queue.Empty:
                break
            limit = min(self.unit_limit, max(self.deadline + 20 - time.monotonic(), 10))
            start = time.monotonic()
            answer = worker.ask(unit, limit)
            answer["seconds"] = round(time.monotonic() - start, 2)
            if answer.pop("broken", False):  # it crashed, hangs, or its device is unusable
                worker.stop()
                worker = None
            done(unit, answer)
        if worker is not None:
            worker.stop()


class _Worker:
    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self._log_path = log
        self._log = log.open("w")
        self._process = subprocess.Popen(
            command,
            env=environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def is_ready(self) -> bool:
        return self._read(START_LIMIT) == {"ready": True}

    def ask(self, unit: str, limit: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(unit) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return {"outcome": "crash", "detail": self.last_words(), "broken": True}
        answer = self._read(limit)
        if answer is not None:
            return answer
        code = self._process.poll()
        if code is None:
            detail = f"no answer in {limit:.0f} s"
            return {"outcome": "time-out", "detail": detail, "broken": True}
        detail = f"exit status {code}: {self.last_words()}"
        return {"outcome": "crash", "detail": detail, "broken": True}

    def _read(self, limit: float) -> dict[str, Any] | None:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], limit)
        line = self._process.stdout.readline() if ready else ""
        if ready and not line:
            self._process.wait()
        return json.loads(line) if line else None

    def last_words(self) -> str:
        lines = self._log_path.read_text(errors="replace").strip().splitlines()
        return " / ".join(lines[-6:])[-600:]

    def stop(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            try:
                self._process.stdin.close()
                self._process.wait(5)
            except (OSError, subprocess.TimeoutExpired):
                self._process.kill()
                self._process.wait()
        self._log.close()
