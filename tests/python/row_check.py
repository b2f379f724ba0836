"""Checks every ATen call that runs under `RowCheck` against its row.

The rows are run one by one in the reference executor, on the tensors that eager saw, so a wrong row
is named by its overload and arguments and not by a model's final output.
"""

from __future__ import annotations

import collections
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from gex._gex import (
    CaptureOptions,
    Dim,
    DType,
    Importer,
    OutputItem,
    RunnerOptions,
    Signature,
    Type,
    aten_overloads,
    compiled_runner,
    interpreter_runner,
)
from gex.importer.tensor_types import DTYPES, why_unsupported

# Those named gex.* are not operators of PyTorch: they draw random numbers.
ROWS = frozenset(name for name in aten_overloads() if not name.startswith("gex."))
# Results that eager leaves unwritten.
_UNDEFINED = ("empty", "new_empty")
_TOLERANCE = {
    torch.float64: 1e-9,
    torch.float32: 2e-5,
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
}
MAX_ELEMENTS = 1 << 16


class NoForm(Exception):
    """An argument that rows do not support."""


def _dense_type(tensor: torch.Tensor) -> Type:
    return Type(DTYPES[tensor.dtype], [Dim(n) for n in tensor.shape])


def run_row(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], expected: Any, compiled: bool = False
) -> Any:
    """The row's results as tensors, or the reason why it does not take the call."""
    importer = Importer("row")
    inputs: list[torch.Tensor] = []

    def convert(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if why_unsupported(value, torch.device("cpu")) or value._is_zerotensor():
                raise NoForm(str(value.dtype))
            inputs.append(value.detach().contiguous())
            return importer.add_input(_dense_type(value), f"x{len(inputs)}")
        if isinstance(value, torch.dtype):
            if value not in DTYPES:
                raise NoForm(str(value))
            return DTYPES[value]
        if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
            return None
        if isinstance(value, (list, tuple)):
            return [convert(v) for v in value]
        if value is None or isinstance(value, (bool, int, float, str, DType)):
            return value
        raise NoForm(type(value).__name__)

    converted = []
    for position, parameter in enumerate(func._schema.arguments):
        if position < len(args):
            value = args[position]
        else:
            value = kwargs.get(parameter.name, parameter.default_value)
        converted.append(convert(value))
    results = [expected] if isinstance(expected, torch.Tensor) else list(expected)
    for result in results:
        if result is not None and why_unsupported(result):
            raise NoForm(why_unsupported(result))
    types = [Type.absent() if r is None else _dense_type(r) for r in results]
    values, reason = importer.add_node(str(func), converted, types, "")
    if values is None:
        return reason
    wanted = [i for i, r in enumerate(results) if r is not None]
    for i in wanted:
        importer.add_output(values[i])
    signature = Signature(
        num_arguments=len(inputs),
        tensors=list(range(len(inputs))),
        integers=[],
        constants=[],
        outputs=[OutputItem.graph(i) for i in range(len(wanted))],
        symbols=[],
    )
    if compiled:
        runner = compiled_runner(
            importer.finish(), signature, [], CaptureOptions(), RunnerOptions()
        )
    else:
        runner = interpreter_runner(importer.finish(), signature, [])
    produced = iter(runner(list(inputs)))
    return [None if r is None else next(produced) for r in results]


def _describe(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return value


class RowCheck(TorchDispatchMode):
    """Runs eagerly and checks on the side. `wrong` holds the differences, `taken` what was checked,
    `refused` why rows did not take calls."""

    def __init__(self, scale: float = 1.0, compiled: bool = False) -> None:
        super().__init__()
        self.scale = scale
        self.compiled = compiled
        self.wrong: list[str] = []
        self.taken: collections.Counter[str] = collections.Counter()
        self.refused: dict[str, set[str]] = collections.defaultdict(set)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = str(func)
        if name in ROWS:
            self.compare(func, args, kwargs, result)
        elif name.startswith("aten."):
            self.refused[name].add("gex has no native form of it")
        return result

    def compare(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Checks one call's result against its row's."""
        name = str(func)
        if isinstance(result, torch.Tensor):
            tensors = [result]
        elif isinstance(result, (list, tuple)) and result:
            tensors = [r for r in result if r is not None]
        else:
            return
        if any(not isinstance(t, torch.Tensor) or t.numel() > MAX_ELEMENTS for t in tensors):
            return
        try:
            rows = run_row(func, args, kwargs, result, self.compiled)
        except NoForm:
            return
        except Exception as error:  # every kind of failure is a finding, with its call
            self._report(name, args, kwargs, f"{type(error).__name__}: {error}")
            return
        if isinstance(rows, str):
            self.refused[name].add(rows)
            return
        self.taken[name] += 1
        if any(part in name for part in _UNDEFINED):
            return
        for got, want in zip([r for r in rows if r is not None], tensors):
            tolerance = self.scale * _TOLERANCE.get(want.dtype, 0)
            try:
                torch.testing.assert_close(
                    got, want.detach().contiguous(), rtol=tolerance, atol=tolerance, equal_nan=True
                )
            except AssertionError as difference:
                self._report(name, args, kwargs, str(difference))

    def _report(self, name: str, args: Any, kwargs: Any, what: str) -> None:
        shown = tree_map(_describe, (args, kwargs))
        self.wrong.append(f"{name}{shown}: {' '.join(what.split())[:600]}")
