"""capture_error_mode: what waiting for the device does while a graph is being captured.

`global`: an error in any thread that waits; `thread_local`: only in the capturing thread;
`relaxed`: nothing. It invalidates a recording (`gex.recording`). In a graph of torch.compile an
operator that waits is a separate step, so its call continues, with a warning that names it.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

MODES = ("global", "thread_local", "relaxed")

Compiled = Callable[[list[Any]], Sequence[Any]]


@dataclass(eq=False)
class Capture:
    """A capture in progress."""

    what: str
    mode: str
    thread: int
    is_recording: bool
    has_begun: Callable[[], bool]
    spoilt_by: str | None = None

    def forbids(self, thread: int) -> bool:
        if self.mode == "relaxed" or (self.mode == "thread_local" and thread != self.thread):
            return False
        return self.has_begun()


_under_way: list[Capture] = []
_told: set[tuple[str, str, str]] = set()  # graph, operator, line


def check(mode: Any) -> None:
    if mode not in MODES:
        raise ValueError(f"capture_error_mode {mode!r} not in optional list {list(MODES)}")


def begin(
    what: str, mode: str, is_recording: bool, has_begun: Callable[[], bool] = lambda: True
) -> Capture:
    capture = Capture(what, mode, threading.get_ident(), is_recording, has_begun)
    _under_way.append(capture)
    return capture


def end(capture: Capture) -> None:
    _under_way.remove(capture)


@contextlib.contextmanager
def _under_watch(what: str, mode: str, has_begun: Callable[[], bool]) -> Iterator[None]:
    capture = begin(what, mode, False, has_begun)
    try:
        yield
    finally:
        end(capture)


def unsafe(action: str) -> None:
    """Must be called before anything that waits for the device or returns memory to it."""
    if not _under_way:
        return
    thread = threading.get_ident()
    for capture in tuple(_under_way):
        if not capture.forbids(thread):
            continue
        if not capture.is_recording and thread == capture.thread:
            _warn_about_op(capture.what, action)
            continue
        if capture.is_recording:
            capture.spoilt_by = action
        where = "" if thread == capture.thread else " by another thread"
        raise RuntimeError(
            f"{action} while {capture.what} is being captured{where}: do it before or after, or "
            f"capture with capture_error_mode={'relaxed' if not where else 'thread_local'!r}"
        )


def _warn_about_op(graph: str, action: str) -> None:
    op, line = _running_op()
    if (graph, op, line) not in _told:
        _told.add((graph, op, line))
        warnings.warn(
            f"{op}{f' at {line}' if line else ''} calls {action}, which a captured graph can't "
            f"contain: in {graph} it runs through PyTorch at each replay",
            stacklevel=2,
        )


def _running_op() -> tuple[str, str]:
    """Name and user's line of the call step that is running."""
    frame = sys._getframe()
    while frame is not None:
        recipe = getattr(frame.f_globals.get("callee"), "recipe", None)
        if recipe is not None:
            return recipe.name, recipe.location
        frame = frame.f_back  # type: ignore[assignment]
    return "an operator", ""


def guarded(compiled: Compiled, runner: Any, graph: str, mode: str) -> Compiled:
    """Makes the captures of the function known to `unsafe`; for graphs that run user code."""

    def run(arguments: list[Any]) -> Sequence[Any]:
        before = _captures(runner)
        with _under_watch(graph, mode, lambda: _captures(runner) != before):
            return compiled(arguments)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _captures(runner: Any) -> int:
    counters = runner.counters
    return counters.get("captures", 0) + counters.get("recaptures", 0)
