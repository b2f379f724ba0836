"""Random functions give eager's results, changed arguments and gradients."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest
import torch

from random_programs import Invalid, Program, check, eager_outcome, random_program, reduced

# GEX_RANDOM_PROGRAMS=n runs more of each kind.
COUNT = int(os.environ.get("GEX_RANDOM_PROGRAMS", "8"))


def problem_of(program: Program, dynamic: bool, sizes: Iterable[int]) -> str:
    torch._dynamo.reset()
    run = torch.compile(program.function(), backend="gex", dynamic=dynamic or None)
    try:
        return check(program, run, sizes)
    except torch._dynamo.exc.TorchRuntimeError:
        return ""  # PyTorch can't trace it for some size: there is no graph to compile


def compare(program: Program, dynamic: bool, sizes: tuple[int, ...]) -> None:
    def fails(candidate: Program) -> bool:
        try:
            eager_outcome(candidate, sizes[0])
            return bool(problem_of(candidate, dynamic, sizes))
        except Invalid:
            return False

    try:
        eager_outcome(program, sizes[0])
    except Invalid:
        return  # in the backward
    problem = problem_of(program, dynamic, sizes)
    if problem:
        small = reduced(program, fails)
        pytest.fail(f"{problem}\nsmallest program:\n{small.arguments}\n{small.source}")


@pytest.mark.parametrize("special", [False, True], ids=["numbers", "special"])
@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_random_programs(dynamic: bool, trains: bool, special: bool) -> None:
    first = 1000 * (4 * dynamic + 2 * trains + special)
    sizes = (5, 37, 1, 0) if dynamic else (37,)
    for seed in range(first, first + (COUNT // 2 if dynamic else COUNT)):
        compare(random_program(seed, trains, special), dynamic, sizes)


def test_a_wrong_result_is_found_and_reduced() -> None:
    program = random_program(3)

    def wrong(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(r + 1 for r in program.function()(*inputs))

    def fails(candidate: Program) -> bool:
        try:
            return len(eager_outcome(candidate, 5)) > len(candidate.arguments)
        except Invalid:
            return False

    assert "value 0" in check(program, wrong, (5,))
    small = reduced(program, fails)
    assert len(small.lines) <= 1 and len(small.results) == 1
