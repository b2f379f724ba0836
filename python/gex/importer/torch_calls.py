"""Callees of call steps: Python functions that run one node through PyTorch.

A callee takes the node's tensors, then its integers, and returns a tuple of its tensor results.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from gex._gex import Dim, Value
from gex.compat.operators import OpOverload, has_registered_effect
from gex.compat.pytree import tree_flatten
from gex.determinism import repeatable_algorithms
from gex.errors import GraphNotSupported
from gex.importer import unsupported_dtypes
from gex.importer.symbols import NotADim, Symbols

_aten = torch.ops.aten

# Results depend on the strides of the operands.
_STRIDE_SENSITIVE = {
    _aten.as_strided.default,
    _aten.as_strided_copy.default,
    _aten.as_strided_scatter.default,
    _aten._reshape_alias.default,
    # They factor the transpose of a contiguous matrix; the backward was traced for one of the two.
    _aten._linalg_det.default,
    _aten._linalg_slogdet.default,
    _aten._linalg_solve_ex.default,
}


def is_random(target: Any, args: Any = (), kwargs: Any = None) -> bool:
    """Whether this call draws random numbers; a dropout probability of 0 draws none."""
    if not (isinstance(target, OpOverload) and torch.Tag.nondeterministic_seeded in target.tags):
        return False
    for i, argument in enumerate(target._schema.arguments):
        if argument.name == "dropout_p":
            default = argument.default_value
            value = args[i] if i < len(args) else (kwargs or {}).get("dropout_p", default)
            return value != 0
    return True


def _sees_strides(target: Any) -> bool:
    """Whether its operands must have the same strides as in eager mode."""
    if not isinstance(target, OpOverload) or target.namespace not in ("aten", "prims"):
        return True  # user code
    return target in _STRIDE_SENSITIVE or is_random(target)


def mutates(target: Any) -> bool:
    return isinstance(target, OpOverload) and target._schema.is_mutable


def has_effect(target: Any, args: Any = (), kwargs: Any = None) -> bool:
    """Whether calls to it must stay in order: draws random numbers, prints, asserts, ...

    Also collectives: every process of a group has to issue them in the same order.
    """
    if is_random(target, args, kwargs) or has_registered_effect(target, args):
        return True
    if isinstance(target, OpOverload):
        return not target._schema.returns or target.namespace == "_c10d_functional"
    return False


def evaluate(expr: sympy.Basic, symbols: tuple[sympy.Symbol, ...], *values: float) -> Any:
    """Evaluates a symbolic float or bool for these values of its symbols."""
    if expr in symbols:
        return float(values[symbols.index(expr)])
    result = expr.xreplace({s: sympy.sympify(v) for s, v in zip(symbols, values)})
    if result in (sympy.true, sympy.false):
        return bool(result)
    return float(result)


def lay_out(tensor: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    """The tensor as a dense one with its axes in this memory order, slowest first."""
    back = sorted(range(len(order)), key=order.__getitem__)
    return tensor.permute(order).contiguous().permute(back)


def _promised_order(fake: torch.Tensor) -> tuple[int, ...] | None:
    """The axis order of a result whose strides depend on data-dependent sizes.

    Meta functions guess there (`unique_consecutive` along an axis), and the engine can't check
    strides that it does not know in advance: so the callee enforces the order.
    """
    if unsupported_dtypes.is_represented(fake) or not any(
        isinstance(step, torch.SymInt) and free_unbacked_symbols(step) for step in fake.stride()
    ):
        return None
    expressions = [
        n.node.expr if isinstance(n, torch.SymInt) else sympy.Integer(n)
        for n in (*fake.shape, *fake.stride())
    ]
    symbols = sorted(set().union(*(e.free_symbols for e in expressions)), key=str)
    sample = {symbol: sympy.prime(i + 4) for i, symbol in enumerate(symbols)}
    numbers = [int(e.xreplace(sample)) for e in expressions]
    sizes, steps = numbers[: fake.dim()], numbers[fake.dim() :]
    order = tuple(sorted(range(fake.dim()), key=lambda axis: (-steps[axis], -sizes[axis], axis)))
    packed = 1
    for axis in reversed(order):
        if steps[axis] != packed and sizes[axis] != 1:
            raise GraphNotSupported(
                f"a result with gaps in memory and data-dependent sizes: {fake}"
            )
        packed *= sizes[axis]
    return order


def _dense_strides(shape: list[Dim]) -> list[Dim]:
    strides: list[Dim] = []
    step = Dim(1)
    for size in reversed(shape):
        strides.insert(0, step)
        step = step * Dim.max(size, Dim(1))
    return strides


def _result_text(expression: str, fake: torch.Tensor) -> str:
    if unsupported_dtypes.is_represented(fake):
        return f"represent({expression})"
    if order := _promised_order(fake):
        expression = f"lay_out({expression}, {order})"
    return f"{expression}.resolve_neg()" if fake.is_neg() else expression


def _blame(name: str, location: str, problem: Exception) -> None:
    """Adds the op and the user's line to the error."""
    if hasattr(problem, "add_note"):  # Python 3.11 and newer
        problem.add_note(f"gex: while running {name}" + (f" at {location}" if location else ""))


def require_value(tensor: torch.Tensor, expected: bool | int, message: str) -> None:
    if tensor.item() != expected:
        raise RuntimeError(message)


@dataclass(frozen=True)
class Recipe:
    """Everything needed to make a callee again in another process."""

    target: Any
    source: str
    name: str
    location: str
    constants: dict[str, Any]
    # Arguments of a custom operator that are no tensors, as JSON; None if they can't be written so.
    parameters: str | None = None

    def make(self) -> Callable[..., Any]:
        scope = {
            "target": self.target,
            "evaluate": evaluate,
            "represent": unsupported_dtypes.represent,
            "restore": unsupported_dtypes.restore,
            "lay_out": lay_out,
            "repeatable_algorithms": repeatable_algorithms,
            "blame": functools.partial(_blame, self.name, self.location),
            **self.constants,
        }
        exec(compile(self.source, f"<gex call {self.name}>", "exec"), scope)
        callee = scope["callee"]
        callee.recipe = self
        return callee


def _parameters(target: Any, args: Any, kwargs: Any) -> str | None:
    if not isinstance(target, OpOverload):
        return None
    names = [argument.name for argument in target._schema.arguments]
    given = {**dict(zip(names, args)), **kwargs}
    numbers = {name: value for name, value in given.items() if not _holds_tensors(value)}
    try:
        return json.dumps(numbers)
    except (TypeError, ValueError):
        return None


def _holds_tensors(value: Any) -> bool:
    leaves = tree_flatten(value)[0]
    return bool(leaves) and all(isinstance(leaf, Operand) for leaf in leaves)


@dataclass
class CallBuilder:
    """Converts a node's arguments into the source of a callee, and collects its operands."""

    target: Any
    symbols: Symbols
    floats: dict[sympy.Symbol, Operand]  # numbers stored in tensors
    name: str  # of the callee, for errors
    location: str
    repeatable: bool = False  # runs under PyTorch's deterministic algorithms
    operands: list[Value] = field(default_factory=list)
    operand_strides: list[list[Dim] | None] = field(default_factory=list)
    integers: list[Dim] = field(default_factory=list)
    _constants: dict[str, Any] = field(default_factory=dict)

    def build(
        self, args: Any, kwargs: Any, results: list[tuple[str, torch.Tensor]]
    ) -> Callable[..., Any]:
        """`results`: each returned tensor as an expression over the call's result `r`.

        Leaves of `args` and `kwargs` are (Value, fake tensor) pairs wrapped in `Operand`, symbolic
        numbers, or plain constants.
        """
        parts = [self._text(a) for a in args]
        parts += [f"{name}={self._text(a)}" for name, a in kwargs.items()]
        entries = "".join(f"{_result_text(expr, fake)}, " for expr, fake in results)
        names = [f"t{i}" for i in range(len(self.operands))]
        names += [f"i{i}" for i in range(len(self.integers))]
        run = f"r = target({', '.join(parts)})"
        source = (
            f"def callee({', '.join(names)}):\n"
            f"    try:\n"
            f"        {'with repeatable_algorithms(): ' if self.repeatable else ''}{run}\n"
            f"    except Exception as problem:\n"
            f"        blame(problem)\n"
            f"        raise\n"
            f"    return ({entries})\n"
        )
        parameters = _parameters(self.target, args, kwargs)
        recipe = Recipe(self.target, source, self.name, self.location, self._constants, parameters)
        return recipe.make()

    def _text(self, arg: Any) -> str:
        if isinstance(arg, Operand):
            return self._operand(arg)
        if isinstance(arg, (list, tuple)):
            inner = ", ".join(self._text(a) for a in arg)
            return f"[{inner}]" if isinstance(arg, list) else f"({inner}{',' if arg else ''})"
        if isinstance(arg, dict):
            return f"{{{', '.join(f'{k!r}: {self._text(a)}' for k, a in arg.items())}}}"
        if isinstance(arg, torch.SymInt):
            try:
                return self._integer(self.symbols.dim(arg))
            except NotADim:
                return f"int({self._computed(arg)})"
        if isinstance(arg, (torch.SymFloat, torch.SymBool)):
            return self._computed(arg)
        if arg is None or isinstance(arg, (bool, int)):
            return repr(arg)
        return self._constant(arg)

    def _constant(self, value: Any) -> str:
        name = f"c{len(self._constants)}"
        self._constants[name] = value
        return name

    def _operand(self, operand: Operand) -> str:
        name = f"t{len(self.operands)}"
        self.operands.append(operand.value)
        self.operand_strides.append(self._strides_for(operand.fake))
        if not unsupported_dtypes.is_represented(operand.fake):
            return name
        return f"restore({name}, {self._constant(operand.fake.dtype)})"

    def _strides_for(self, fake: torch.Tensor) -> list[Dim] | None:
        """The strides that the target must see; None: any."""
        if not _sees_strides(self.target):
            return None
        layout = unsupported_dtypes.layout_of(fake, self.symbols)
        if torch.Tag.needs_contiguous_strides in getattr(self.target, "tags", ()):
            return _dense_strides(layout.shape)
        return layout.strides

    def _integer(self, dim: Dim) -> str:
        if dim.constant is not None:
            return str(dim.constant)
        if dim in self.integers:
            return f"i{self.integers.index(dim)}"
        self.integers.append(dim)
        return f"i{len(self.integers) - 1}"

    def _computed(self, number: Any) -> str:
        expr = number.node.expr
        free = tuple(sorted(expr.free_symbols, key=str))
        name = self._constant((expr, free))
        values = [
            f"{self._operand(self.floats[s])}.item()"
            if s in self.floats
            else self._integer(self.symbols.symbol(s))
            for s in free
        ]
        return f"evaluate({', '.join([f'*{name}', *values])})"


@dataclass(frozen=True)
class Operand:
    """A tensor argument: its value in the graph and its fake tensor."""

    value: Value
    fake: torch.Tensor
