"""Arguments and results of a graph that the runner can't take or give as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from gex._gex import Dim
from gex.importer import torch_calls, unsupported_dtypes

# Makes an entry of the result list from the runner's results and the arguments kept for it.
Finish = Callable[[Sequence[Any], dict[int, Any]], Any]


@dataclass
class Adapter:
    """Carries what has no dtype in gex over the edges of a graph, and computes odd numbers."""

    num_results: int = 0  # what the runner gives beyond them is for the numbers
    # Arguments that stand for the sizes of a ragged axis: equal or not, but no number.
    ragged: dict[Dim, int] = field(default_factory=dict)
    _carried: set[int] = field(default_factory=set)
    _kept: set[int] = field(default_factory=set)
    _finish: dict[int, Finish] = field(default_factory=dict)
    _bound: dict[int, Any] = field(default_factory=dict)

    def bind(self, first: int, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The arguments from `first` on are these in every call; gives what the runner gets."""
        given = []
        for argument, tensor in enumerate(tensors, first):
            self._bound[argument] = tensor
            is_carried = argument in self._carried
            given.append(unsupported_dtypes.carry_argument(tensor) if is_carried else tensor)
        return given

    def carry_argument(self, argument: int) -> None:
        self._carried.add(argument)

    def is_carried(self, argument: int) -> bool:
        return argument in self._carried

    @property
    def does_nothing(self) -> bool:
        return not (self._carried or self._kept or self._finish or self._bound)

    def return_argument(self, result: int, argument: int) -> None:
        self._kept.add(argument)
        self._finish[result] = lambda _, kept: kept[argument]

    def uncarry_result(self, result: int, dtype: torch.dtype) -> None:
        self._finish[result] = lambda results, _: unsupported_dtypes.uncarry(results[result], dtype)

    def compute_number(
        self, result: int, expr: sympy.Basic, symbols: tuple[sympy.Symbol, ...], at: list[int]
    ) -> None:
        """A float or a truth over integers that are the runner's results `at`."""
        self._finish[result] = lambda results, _: torch_calls.evaluate(
            expr, symbols, *(results[i] for i in at)
        )

    def wrap(self, runner: Any) -> Any:
        carried = sorted(self._carried - self._bound.keys())
        kept_arguments = sorted(self._kept - self._bound.keys())
        if not carried and not self._finish:
            return runner

        def run(arguments: list[Any]) -> list[Any]:
            kept = self._bound | {i: arguments[i] for i in kept_arguments}
            for i in carried:
                arguments[i] = unsupported_dtypes.carry_argument(arguments[i])
            given = runner(arguments)
            results = list(given[: self.num_results])
            for i, finish in self._finish.items():
                results[i] = finish(given, kept)
            return results

        run._boxed_call = True  # type: ignore[attr-defined]
        return run
