"""Memory and threads of the host program for compiled programs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass


@dataclass(frozen=True)
class Allocator:
    """Allocates a program's temporaries and results. `allocate(bytes, alignment)` returns an
    address, or None if out of memory; `release(address, bytes)` is called after the program and
    the arrays that use the memory are gone. Any thread may call them. An exception of `allocate`
    is raised by the run."""

    allocate: Callable[[int, int], int | None]
    release: Callable[[int, int], object]

    def __post_init__(self) -> None:
        for name in ("allocate", "release"):
            if not callable(getattr(self, name)):
                kind = type(getattr(self, name)).__name__
                raise TypeError(f"an Allocator's {name} must be a function, got {kind}")


@dataclass(frozen=True)
class ThreadPool:
    """The threads that run the loops of large kernels: the thread that runs the program, and an
    executor of threads. At most `threads` of them work on one loop."""

    executor: Executor
    threads: int

    def __post_init__(self) -> None:
        if not isinstance(self.executor, Executor) or isinstance(
            self.executor, ProcessPoolExecutor
        ):
            kind = type(self.executor).__name__
            raise TypeError(
                f"a ThreadPool's executor must be a concurrent.futures thread executor, got {kind}"
            )
        if not isinstance(self.threads, int) or self.threads < 1:
            raise ValueError(f"a ThreadPool needs at least one thread, got {self.threads!r}")

    def submit(self, count: int, task: Callable[[int], None]) -> None:
        """Submits task(1), ... task(count - 1) to the executor. The caller runs those that have
        not started by the time it gets there, so an executor whose threads all wait for such
        loops makes progress."""
        for k in range(1, count):
            self.executor.submit(task, k)
