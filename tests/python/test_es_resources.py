"""Memory and threads of the caller for programs of gex.es."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gex import es


def two_products() -> es.Graph:
    """With a temporary in between, and large enough for more than one thread."""
    builder = es.EsGraphBuilder("two_products")
    x = builder.CreateInput(0, "x", "f32", ["rows", 64])
    w = builder.CreateInput(1, "w", "f32", [64, 64])
    return builder.Build([es.relu(es.relu(x @ w) @ w)])


def arrays(rows: int) -> list[np.ndarray]:
    rng = np.random.default_rng(rows)
    return [rng.standard_normal((n, 64), np.float32) for n in (rows, 64)]


class Blocks:
    """Python's own memory, by address."""

    def __init__(self) -> None:
        self.live: dict[int, tuple[int, np.ndarray]] = {}
        self.given = 0
        self.no_more = False
        self.allocator = es.Allocator(self.allocate, self.release)

    def allocate(self, size: int, alignment: int) -> int | None:
        if self.no_more:
            return None
        memory = np.empty(size + alignment, np.uint8)
        address = -(-memory.ctypes.data // alignment) * alignment
        self.live[address] = (size, memory)
        self.given += size
        return address

    def release(self, address: int, size: int) -> None:
        assert self.live.pop(address)[0] == size


def test_every_byte_comes_from_the_allocator_and_goes_back() -> None:
    blocks = Blocks()
    program = two_products().compile(allocator=blocks.allocator)
    plain = two_products().compile()
    for rows in (8, 32, 8):
        (result,) = program.run(arrays(rows))
        np.testing.assert_array_equal(result, plain.run(arrays(rows))[0])
    assert result.ctypes.data in blocks.live
    assert blocks.given >= program.counters()["arena_bytes"] > 0
    expected = result.copy()
    del program
    gc.collect()
    assert list(blocks.live) == [result.ctypes.data]  # a result outlives its program
    np.testing.assert_array_equal(result, expected)
    del result
    assert not blocks.live


def test_allocation_failure_is_reported() -> None:
    blocks = Blocks()
    program = two_products().compile(allocator=blocks.allocator)
    blocks.no_more = True
    with pytest.raises(MemoryError):
        program.run(arrays(8))
    blocks.no_more = False
    assert program.run(arrays(8))[0].shape == (8, 64)


@pytest.mark.parametrize(
    ("allocate", "error", "words"),
    [
        (lambda size, alignment: 1 // 0, ZeroDivisionError, "division"),
        (
            lambda size, alignment: "here",
            TypeError,
            "returned 'here'; it must return an address or None",
        ),
        (lambda size, alignment: 8, ValueError, "address 8, which is not a multiple of"),
    ],
)
def test_errors_of_allocate_are_raised_by_the_run(
    allocate: Callable[[int, int], Any], error: type[Exception], words: str
) -> None:
    program = two_products().compile(allocator=es.Allocator(allocate, lambda *_: None))
    for _ in range(2):
        with pytest.raises(error, match=words):
            program.run(arrays(8))
    with pytest.raises(error, match=words):
        program.run_async(arrays(8)).result(timeout=60)
    two_products().compile().run(arrays(8))  # nothing is left behind


class CountingExecutor(ThreadPoolExecutor):
    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.submitted = 0
        self.ran_by: set[str] = set()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submitted += 1

        def noted(*args: Any) -> Any:
            self.ran_by.add(threading.current_thread().name)
            return fn(*args, **kwargs)

        return super().submit(noted, *args)


def test_loops_run_on_the_executors_threads_with_the_same_bits() -> None:
    plain = two_products().compile()
    with CountingExecutor(3) as executor:
        mine = two_products().compile(thread_pool=es.ThreadPool(executor, threads=4))
        for rows in (1, 600, 2000):
            np.testing.assert_array_equal(mine.run(arrays(rows))[0], plain.run(arrays(rows))[0])
        assert executor.submitted > 0
    assert executor.ran_by
    assert threading.main_thread().name not in executor.ran_by


def test_a_run_inside_the_executor_waits_for_no_thread_of_it() -> None:
    with ThreadPoolExecutor(1) as executor:
        program = two_products().compile(thread_pool=es.ThreadPool(executor, threads=3))
        (result,) = executor.submit(program.run, arrays(600)).result(timeout=60)
    np.testing.assert_array_equal(result, two_products().run(arrays(600))[0])


def test_an_executor_that_was_shut_down_is_an_error_and_not_a_crash() -> None:
    executor = ThreadPoolExecutor(2)
    program = two_products().compile(thread_pool=es.ThreadPool(executor, threads=2))
    program.run(arrays(600))
    executor.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        program.run(arrays(600))
    assert program.run(arrays(1))[0].shape == (1, 64)  # too small for threads


def test_loaded_programs_take_both(tmp_path: Path) -> None:
    two_products().compile().save(tmp_path / "program")
    blocks = Blocks()
    with CountingExecutor(2) as executor:
        program = es.Program.load(
            tmp_path / "program",
            allocator=blocks.allocator,
            thread_pool=es.ThreadPool(executor, threads=2),
        )
        (result,) = program.run(arrays(600))
        assert executor.submitted > 0
    assert result.ctypes.data in blocks.live


def test_errors_are_raised_when_they_are_made() -> None:
    with pytest.raises(TypeError, match="allocate must be a function, got int"):
        es.Allocator(1, print)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="thread executor, got ProcessPoolExecutor"):
        es.ThreadPool(ProcessPoolExecutor(1), 1)
    with pytest.raises(TypeError, match="thread executor, got int"):
        es.ThreadPool(4, 4)  # type: ignore[arg-type]
    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(ValueError, match="at least one thread, got 0"):
            es.ThreadPool(executor, 0)
        with pytest.raises(TypeError, match=r"expected a gex\.es\.ThreadPool, got ThreadPoolExec"):
            two_products().compile(thread_pool=executor)  # type: ignore[arg-type]
