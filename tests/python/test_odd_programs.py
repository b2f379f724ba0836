"""Every odd program gives eager's results, input mutations and gradients, at every size."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

from odd_programs import PROGRAMS, Program

# A large size first; with dynamic=True later sizes run the same code where nothing is specialised.
SIZES = (5, 3, 1, 0, 5)
SEED = 7


def outcome(run: Any, inputs: tuple[torch.Tensor, ...]) -> list[Any]:
    """Results, inputs after the call and their gradients; or the kind of error."""
    torch.manual_seed(SEED)
    try:
        result = run(*inputs)
    except (RuntimeError, IndexError):
        return ["error"]
    leaves = tree_leaves(result)
    loss = [leaf.sum() for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if loss:
        torch.stack(loss).sum().backward()
    state = [x.detach() for x in inputs] + [x.grad for x in inputs]
    return [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves] + state


def strides_that_matter(x: torch.Tensor) -> list[int]:
    return [step for size, step in zip(x.shape, x.stride()) if size > 1 and x.numel() > 0]


def assert_same_outcome(actual: list[Any], expected: list[Any]) -> None:
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected):
        assert type(a) is type(b)
        if isinstance(a, torch.Tensor):
            torch.testing.assert_close(a, b, equal_nan=True, rtol=2e-5, atol=1e-5)
            if not a.is_complex():
                zero = (a == 0) & (b == 0)
                assert torch.equal(torch.signbit(a) & zero, torch.signbit(b) & zero)
            assert strides_that_matter(a) == strides_that_matter(b)
        else:
            assert a == b


def inputs_of(program: Program, size: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(size)
    return program.inputs(size)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("backend", ["gex", "npugraph_ex"])
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_odd_program(name: str, backend: str, dynamic: bool) -> None:
    program = PROGRAMS[name]
    compiled = torch.compile(program.run, backend=backend, dynamic=dynamic)
    for size in SIZES:
        # Made twice, not copied: a copy would not share storages as the originals do.
        expected = outcome(program.run, inputs_of(program, size))
        actual = outcome(compiled, inputs_of(program, size))
        assert_same_outcome(actual, expected)
