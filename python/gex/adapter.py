"""Arguments and results of a graph that the runner can't take or give as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from gex import calls, carriers

# Makes an entry of the result list from the runner's results and the arguments kept for it.
Finish = Callable[[Sequence[Any], dict[int, Any]], Any]


@dataclass
class Adapter:
    """Carries what has no dtype in gex over the edges of a graph, and computes odd numbers."""

    num_results: int = 0  # what the runner gives beyond them is for the numbers
    _carried: set[int] = field(default_factory=set)
    _kept: set[int] = field(default_factory=set)
    _finish: dict[int, Finish] = field(default_factory=dict)

    def carry_argument(self, argument: int) -> None:
        self._carried.add(argument)

    def is_carried(self, argument: int) -> bool:
        return argument in self._carried

    def return_argument(self, result: int, argument: int) -> None:
        self._kept.add(argument)
        self._finish[result] = lambda _, kept: kept[argument]

    def uncarry_result(self, result: int, dtype: torch.dtype) -> None:
        self._finish[result] = lambda results, _: carriers.uncarry(results[result], dtype)

    def compute_number(
        self, result: int, expr: sympy.Basic, symbols: tuple[sympy.Symbol, ...], at: list[int]
    ) -> None:
        """A float or a truth over integers that are the runner's results `at`."""
        self._finish[result] = lambda results, _: calls.evaluate(
            expr, symbols, *(results[i] for i in at)
        )

    def wrap(self, runner: Any) -> Any:
        if not self._carried and not self._finish:
            return runner
        carried, kept_arguments = sorted(self._carried), sorted(self._kept)

        def run(arguments: list[Any]) -> list[Any]:
            kept = {i: arguments[i] for i in kept_arguments}
            for i in carried:
                arguments[i] = carriers.carry_argument(arguments[i])
            given = runner(arguments)
            results = list(given[: self.num_results])
            for i, finish in self._finish.items():
                results[i] = finish(given, kept)
            return results

        run._boxed_call = True  # type: ignore[attr-defined]
        return run
