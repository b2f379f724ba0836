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
class BoundaryAdapter:
    """Converts arguments and results whose dtype gex lacks; computes results that are numbers."""

    num_results: int = 0  # what the runner gives beyond them is for the numbers
    # Arguments that stand for the sizes of a ragged axis: equal or not, but no number.
    ragged: dict[Dim, int] = field(default_factory=dict)
    _converted: set[int] = field(default_factory=set)
    _kept: set[int] = field(default_factory=set)
    _finish: dict[int, Finish] = field(default_factory=dict)
    _bound: dict[int, Any] = field(default_factory=dict)

    def bind(self, first: int, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The arguments from `first` on are these in every call; gives what the runner gets."""
        given = []
        for argument, tensor in enumerate(tensors, first):
            self._bound[argument] = tensor
            converted = argument in self._converted
            given.append(unsupported_dtypes.argument_as_substitute(tensor) if converted else tensor)
        return given

    def convert_argument(self, argument: int) -> None:
        self._converted.add(argument)

    def is_converted(self, argument: int) -> bool:
        return argument in self._converted

    @property
    def does_nothing(self) -> bool:
        return not (self._converted or self._kept or self._finish or self._bound)

    def return_argument(self, result: int, argument: int) -> None:
        self._kept.add(argument)
        self._finish[result] = lambda _, kept: kept[argument]

    def convert_result(self, result: int, dtype: torch.dtype) -> None:
        self._finish[result] = lambda results, _: unsupported_dtypes.from_substitute(
            results[result], dtype
        )

    def compute_number(
        self, result: int, expr: sympy.Basic, symbols: tuple[sympy.Symbol, ...], at: list[int]
    ) -> None:
        """A float or a truth over integers that are the runner's results `at`."""
        self._finish[result] = lambda results, _: torch_calls.evaluate(
            expr, symbols, *(results[i] for i in at)
        )

    def wrap(self, runner: Any) -> Any:
        converted = sorted(self._converted - self._bound.keys())
        kept_arguments = sorted(self._kept - self._bound.keys())
        if not converted and not self._finish:
            return runner

        def run(arguments: list[Any]) -> list[Any]:
            kept = self._bound | {i: arguments[i] for i in kept_arguments}
            for i in converted:
                arguments[i] = unsupported_dtypes.argument_as_substitute(arguments[i])
            given = runner(arguments)
            results = list(given[: self.num_results])
            for i, finish in self._finish.items():
                results[i] = finish(given, kept)
            return results

        run._boxed_call = True  # type: ignore[attr-defined]
        return run
