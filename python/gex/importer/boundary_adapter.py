"""Adapts arguments and results that the runner can't take or return directly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch

from gex._gex import Dim
from gex.importer import torch_calls, unsupported_dtypes

# Makes an entry of the result list from the runner's results and the saved arguments.
Finish = Callable[[Sequence[Any], dict[int, Any]], Any]


@dataclass
class Adapter:
    """Converts unsupported dtypes at the boundary of a graph, and computes number results."""

    num_results: int = 0  # further results of the runner are operands of numbers
    # Arguments that stand for the sizes of a ragged axis: comparable, but not numbers.
    ragged: dict[Dim, int] = field(default_factory=dict)
    _converted: set[int] = field(default_factory=set)
    _moved: dict[int, torch.device] = field(default_factory=dict)  # numbers on the CPU
    _kept: set[int] = field(default_factory=set)
    _finish: dict[int, Finish] = field(default_factory=dict)
    _to_host: list[int] = field(default_factory=list)  # results
    _bound: dict[int, Any] = field(default_factory=dict)

    def bind(self, first: int, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Fixes the arguments from `first` on for every call; returns what the runner gets."""
        given = []
        for argument, tensor in enumerate(tensors, first):
            self._bound[argument] = tensor
            is_converted = argument in self._converted
            given.append(unsupported_dtypes.represent_argument(tensor) if is_converted else tensor)
            if argument in self._moved:
                given[-1] = given[-1].to(self._moved[argument])
        return given

    def convert_argument(self, argument: int) -> None:
        self._converted.add(argument)

    def move_argument(self, argument: int, device: torch.device) -> None:
        self._moved[argument] = device

    def is_converted(self, argument: int) -> bool:
        return argument in self._converted

    def changes(self, argument: int) -> bool:
        """Whether the runner gets another tensor than the caller's."""
        return argument in self._converted or argument in self._moved

    @property
    def does_nothing(self) -> bool:
        changes = self._converted or self._moved or self._kept or self._finish or self._to_host
        return not (changes or self._bound)

    def return_argument(self, result: int, argument: int) -> None:
        self._kept.add(argument)
        self._finish[result] = lambda _, kept: kept[argument]

    def restore_result(self, result: int, dtype: torch.dtype) -> None:
        self._finish[result] = lambda results, _: unsupported_dtypes.restore(results[result], dtype)

    def copy_to_host(self, result: int) -> None:
        self._to_host.append(result)

    def compute_number(
        self, result: int, expr: sympy.Basic, symbols: tuple[sympy.Symbol, ...], at: list[int]
    ) -> None:
        """A float or bool computed from integers that are the runner's results `at`."""
        self._finish[result] = lambda results, _: torch_calls.evaluate(
            expr, symbols, *(results[i] for i in at)
        )

    def wrap(self, runner: Any) -> Any:
        converted = sorted(self._converted - self._bound.keys())
        kept_arguments = sorted(self._kept - self._bound.keys())
        moved = {i: device for i, device in self._moved.items() if i not in self._bound}
        if not converted and not moved and not self._finish and not self._to_host:
            return runner

        def run(arguments: list[Any]) -> list[Any]:
            kept = self._bound | {i: arguments[i] for i in kept_arguments}
            for i in converted:
                arguments[i] = unsupported_dtypes.represent_argument(arguments[i])
            for i, device in moved.items():
                arguments[i] = arguments[i].to(device, non_blocking=True)
            given = runner(arguments)
            if not self._finish and not self._to_host:
                return given
            results = list(given[: self.num_results])
            for i, finish in self._finish.items():
                results[i] = finish(given, kept)
            for i in self._to_host:
                results[i] = results[i].cpu()  # waits for the device
            return results

        run._boxed_call = True  # type: ignore[attr-defined]
        return run
