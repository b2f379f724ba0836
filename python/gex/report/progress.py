"""What a long compile is doing, on a terminal: one line that is erased at the end."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

_FIRST_AFTER = 2.0  # seconds: shorter work shows nothing
_EVERY = 0.5
_ERASE = "\r\x1b[K"


class Activity:
    """Around work that may take long. In a pipe, a file or a notebook it does nothing."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self._doing = ""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def doing(self, what: str) -> None:
        self._doing = what

    def __enter__(self) -> Activity:
        if sys.stderr is not None and sys.stderr.isatty():
            self._begin = time.monotonic()
            self._thread = threading.Thread(target=self._show, name="gex-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _show(self) -> None:
        if self._ended.wait(_FIRST_AFTER):
            return
        while True:
            seconds = time.monotonic() - self._begin
            sys.stderr.write(f"{_ERASE}gex: {self.subject}: {self._doing}, {seconds:.0f} s")
            sys.stderr.flush()
            if self._ended.wait(_EVERY):
                break
        sys.stderr.write(_ERASE)
        sys.stderr.flush()
