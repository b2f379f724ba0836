"""Memory and threads of the caller's for compiled programs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass


@dataclass(frozen=True)
class Allocator:
    """Where a program's temporaries and results lie. `allocate(bytes, alignment)` gives an address,
    or None if there is no more; `release(address, bytes)` gets it back once the program and the
    arrays that lie there are gone. Any thread may call them. What `allocate` raises, the run
    raises."""

    allocate: Callable[[int, int], int | None]
    release: Callable[[int, int], object]

    def __post_init__(self) -> None:
        for name in ("allocate", "release"):
            if not callable(getattr(self, name)):
                kind = type(getattr(self, name)).__name__
                raise TypeError(f"an Allocator's {name} is a function, got {kind}")


@dataclass(frozen=True)
class ThreadPool:
    """Who runs the loops of large kernels: the thread that runs the program, and an executor of
    threads. At most `threads` of them work on one loop."""

    executor: Executor
    threads: int

    def __post_init__(self) -> None:
        if not isinstance(self.executor, Executor) or isinstance(
            self.executor, ProcessPoolExecutor
        ):
            kind = type(self.executor).__name__
            raise TypeError(
                f"a ThreadPool's executor is a concurrent.futures executor of threads, got {kind}"
            )
        if not isinstance(self.threads, int) or self.threads < 1:
            raise ValueError(f"a ThreadPool has at least one thread, got {self.threads!r}")

    def submit(self, count: int, task: Callable[[int], None]) -> None:
        """Offers task(1), ... task(count - 1) to the executor. Whatever of it is not begun when the
        caller gets there, the caller does: an executor whose threads all wait for such loops goes
        on as well."""
        for k in range(1, count):
            self.executor.submit(task, k)
