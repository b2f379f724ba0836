"""Independent branches: the option `streams`, and when branches overlap without it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import gex


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def two_scans(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Each scan of one row occupies one thread."""
    return torch.cumsum(torch.cumsum(a, 0) * 0.5, 0) + torch.cumsum(torch.cumsum(b, 0) * 0.25, 0)


def rows(count: int = 1_000_000) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(count), torch.rand(count)


def compiled(backend: str, options: dict[str, int]) -> tuple[str, torch.Tensor, list[str]]:
    torch.manual_seed(0)
    inputs = rows()
    function = torch.compile(two_scans, backend=backend, dynamic=False, options=options)
    with gex.collect() as graphs:
        result = function(*inputs)
    runner = graphs[0].runner
    return runner.text("program"), result, list(runner.remarks)


needs_two_threads = pytest.mark.skipif(
    gex._gex.thread_count() < 2, reason="one thread: nothing can overlap"
)


@pytest.mark.parametrize("backend", ["gex", "npugraph_ex"])
def test_streams_is_an_option_of_torch_compile(backend: str) -> None:
    one, expected, _ = compiled(backend, {"streams": 1})
    torch._dynamo.reset()
    two, result, _ = compiled(backend, {"streams": 2})
    assert "\nstreams " not in one
    assert "\nstreams 2\n" in two
    assert torch.equal(result, expected)


@pytest.mark.parametrize("backend", ["gex", "npugraph_ex"])
@pytest.mark.parametrize("streams", [-1, 65, True, "2"])
def test_streams_is_checked(backend: str, streams: object) -> None:
    with pytest.raises(Exception, match="streams"):
        torch.compile(two_scans, backend=backend, options={"streams": streams})(*rows(8))


@needs_two_threads
def test_branches_overlap_where_it_pays_and_explain_says_so() -> None:
    program, result, remarks = compiled("gex", {})
    assert "\nstreams 2\n" in program
    assert any(remark.startswith("branches overlap: estimated work") for remark in remarks)
    torch._dynamo.reset()
    _, expected, _ = compiled("gex", {"streams": 1})
    assert torch.equal(result, expected)
    torch._dynamo.reset()
    function = torch.compile(two_scans, backend="gex", dynamic=False)
    assert "branches overlap" in str(gex.explain(function, *rows()))


@needs_two_threads
def test_branches_overlap_at_sizes_determined_at_run_time() -> None:
    function = torch.compile(two_scans, backend="gex", dynamic=True)
    with gex.collect() as graphs:
        results = []
        for count in (1_000_000, 700_001, 5):
            torch.manual_seed(count)
            inputs = rows(count)
            results.append((count, function(*inputs)))
    assert len(graphs) == 1
    runner = graphs[0].runner
    assert "\nstreams 2\n" in runner.text("program")
    torch._dynamo.reset()
    in_order = torch.compile(two_scans, backend="gex", dynamic=True, options={"streams": 1})
    for count, result in results:
        torch.manual_seed(count)
        assert torch.equal(result, in_order(*rows(count)))


def test_branches_whose_steps_use_all_threads_stay_in_order() -> None:
    def towers(a: torch.Tensor, b: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(a @ w) @ w + torch.relu(b @ w) @ w

    function = torch.compile(towers, backend="gex", dynamic=False)
    with gex.collect() as graphs:
        function(torch.randn(256, 256), torch.randn(256, 256), torch.randn(256, 256))
    assert "\nstreams " not in graphs[0].runner.text("program")


@needs_two_threads
def test_memory_of_overlapped_branches_is_planned_for_both() -> None:
    torch.manual_seed(1)
    inputs = rows()
    function = torch.compile(two_scans, backend="gex", dynamic=False)
    expected = two_scans(*inputs)
    for _ in range(20):
        torch.testing.assert_close(function(*inputs), expected)
