"""Shared helpers: compile with gex, compare with eager, inspect the reports."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

import fake_gpu
import gex
from gex.fx_stage import replacements

TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fake-gpu",
        action="store_true",
        help="compile for CUDA, with a driver library that computes on the host",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--fake-gpu"):
        folder = tempfile.TemporaryDirectory(prefix="gex_fake_gpu_")
        config.add_cleanup(folder.cleanup)
        os.environ.update(fake_gpu.environment(Path(folder.name)))
        fake_gpu.install()


@pytest.fixture(autouse=True)
def fresh_state() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    registered = replacements._patterns
    replacements._patterns = None
    static = torch._dynamo.config.assume_static_by_default
    yield
    replacements._patterns = registered
    # In PyTorch 2.11 threads that call with dynamic=True at once restore each other's setting.
    torch._dynamo.config.assume_static_by_default = static


@pytest.fixture
def device() -> str:
    return "cpu"


def tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def assert_same(actual: Any, expected: Any, tolerance: float = 1e-5) -> None:
    """Equal values, dtypes, sizes and strides."""
    got, want = tensors(actual), tensors(expected)
    assert len(got) == len(want)
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
        assert a.stride() == b.stride()


Compile = Callable[..., Callable[..., Any]]


def _compiler(executor: str) -> Compile:
    def compile_fn(fn: Callable[..., Any], **kwargs: Any) -> Callable[..., Any]:
        options = {"executor": executor}
        return torch.compile(fn, backend="gex", fullgraph=True, options=options, **kwargs)

    return compile_fn


@pytest.fixture(params=["interpreter", "compiled"])
def compile_with(request: pytest.FixtureRequest) -> Compile:
    """torch.compile(backend="gex"), run by the reference executor and by compiled code."""
    return _compiler(request.param)


@pytest.fixture(params=["compiled", pytest.param("interpreter", marks=pytest.mark.slow)])
def compiling(request: pytest.FixtureRequest) -> Compile:
    """The same where the reference executor matters less: only when all tests run."""
    return _compiler(request.param)


def last_report() -> gex.GraphReport:
    return gex.reports()[-1]
