"""Random functions of tensors, as source text, and their comparison with eager mode.

A statement is kept if eager mode accepts it for each size of SIZES, so programs are valid without
rules about sizes and dtypes. Where rounding changes a result a lot, nothing is compared: eager mode
runs again with rounding errors added to each of its operations.
"""

from __future__ import annotations

import math
import random
import re
import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

import random_ops
import random_ops_types

Fn = Callable[..., Any]

SIZES = (5, 3)
MAX_ELEMENTS = 2000
SCOPE = {"torch": torch, "F": F, "math": math, "__name__": "random_programs"}

_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_SHAPES = (
    "n, 4",
    "n, 4",
    "4, n",
    "n",
    "n, n",
    "2, n, 4",
    "n, 3, 4",
    "",
    "1, n",
    "n, 1",
    "4",
    "n, 2, 6, 5",
    "1, 4, n, 6",
)
_LAYOUTS = ("dense", "dense", "dense", "transposed", "strided", "offset", "expanded", "flipped")
_NUMBERS = {
    "d": ("-1", "-1", "0", "0", "1", "-2"),
    "s": ("0.5", "-1.5", "2.0", "3.0", "0.1", "2"),
    "k": ("1", "2", "3", "-2", "0"),
    "e": ("0.3", "-0.7"),
}


@dataclass(frozen=True)
class Argument:
    dtype: torch.dtype
    shape: str
    layout: str

    def tensor(self, n: int, generator: torch.Generator, special: bool) -> torch.Tensor:
        sizes = [int(eval(size, {"n": n})) for size in self.shape.split(",") if size.strip()]
        wide = list(sizes)
        if wide and self.layout == "strided":
            wide[-1] *= 2
        if wide and self.layout == "offset":
            wide[0] += 1
        if len(wide) > 1 and self.layout == "transposed":
            wide[-1], wide[-2] = wide[-2], wide[-1]
        if wide and self.layout == "expanded":
            wide[0] = min(wide[0], 1)
        value = self._values(wide, generator, special)
        if wide and self.layout == "strided":
            return value[..., ::2]
        if wide and self.layout == "offset":
            return value[1:]
        if len(wide) > 1 and self.layout == "transposed":
            return value.transpose(-1, -2)
        return value.expand(sizes) if self.layout == "expanded" else value

    def _values(self, sizes: list[int], generator: torch.Generator, special: bool) -> torch.Tensor:
        if self.dtype == torch.bool:
            return torch.rand(sizes, generator=generator) > 0.4
        if not self.dtype.is_floating_point and not self.dtype.is_complex:
            low = 0 if self.dtype == torch.uint8 else -6
            return torch.randint(low, 7, sizes, generator=generator).to(self.dtype)
        if self.dtype.is_complex:
            return torch.randn(sizes, generator=generator, dtype=self.dtype)
        value = torch.rand(sizes, generator=generator) * 4 - 2
        if special:
            at = torch.rand(sizes, generator=generator)
            for place, number in enumerate(
                (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0)
            ):
                value = torch.where((at * 30).floor() == place, number, value)
        return value.to(self.dtype)


@dataclass
class Program:
    lines: list[str]
    results: list[str]
    arguments: list[Argument]
    special: bool = False  # some numbers are NaN, infinite or zero
    trains: bool = False  # gradients of the sum of the results are compared as well
    retains: bool = False  # the backward runs twice
    draws: tuple[str, ...] = ()  # random numbers, always returned: PyTorch removes unused draws

    @property
    def source(self) -> str:
        names = ", ".join(f"x{k}" for k in range(len(self.arguments)))
        kept = {line.split(" = ")[0] for line in self.lines}
        draws = [name for name in self.draws if name in kept and name not in self.results]
        results = ", ".join([*self.results, *draws])
        body = "".join(f"    {line}\n" for line in [*self.lines, f"return ({results},)"])
        return f"def program({names}):\n{body}"

    def function(self) -> Fn:
        scope = dict(SCOPE)
        exec(compile(self.source, "<random program>", "exec"), scope)
        return scope["program"]

    def inputs(self, n: int) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(n)
        return [
            _with_gradient(argument.tensor(n, generator, self.special), self.trains)
            for argument in self.arguments
        ]

    def outcome(self, run: Fn, n: int) -> list[Any]:
        """Results, arguments after the call and their gradients."""
        inputs = self.inputs(n)
        torch.manual_seed(n)
        results = run(*inputs)
        out = [x.detach() if isinstance(x, torch.Tensor) else x for x in tree_leaves(results)]
        if self.trains:
            terms = [
                (x.real if x.is_complex() else x).double().mul(0.5 + k).sum()
                for k, x in enumerate(tree_leaves(results))
                if isinstance(x, torch.Tensor) and x.requires_grad
            ]
            if terms:
                loss = torch.stack(terms).sum()
                loss.backward(retain_graph=self.retains)
                if self.retains:
                    loss.backward()
        state = [x.detach() for x in inputs] + [x.grad for x in inputs if x.requires_grad]
        return out + state


def _with_gradient(tensor: torch.Tensor, trains: bool) -> torch.Tensor:
    return tensor.requires_grad_(trains and tensor.is_floating_point())


# What eager mode computes without rounding.
_EXACT = frozenset(
    name
    for line in (
        "floor ceil round trunc relu neg abs sign sgn where clamp clamp_min clamp_max maximum",
        "minimum max min amax amin fmax fmin sort topk kthvalue median argmax cummax cummin",
        "cat stack repeat index index_select gather scatter index_put index_copy masked_scatter",
        "slice_scatter select_scatter diagonal_scatter embedding constant_pad_nd flip roll clone",
        "copy_ _to_copy detach lift_fresh tril triu fill masked_fill relu6 hardtanh threshold",
        "full ones zeros arange eye one_hot scalar_tensor full_like ones_like zeros_like",
        "empty_like new_full new_zeros empty_strided new_empty_strided leaky_relu_backward",
        "max_pool2d_with_indices max_pool2d_with_indices_backward",
    )
    for name in line.split()
)


class Rounding(TorchDispatchMode):
    """Eager mode with rounding errors of a few units in the last place in addition."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if any(r.alias_info is not None for r in func._schema.returns):
            return result
        if func._schema.name.split("::")[-1] in _EXACT:
            return result
        return tree_map(self._rounded, result)

    def _rounded(self, x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or not (x.is_floating_point() or x.is_complex()):
            return x
        if x.is_sparse or x.numel() == 0:
            return x
        noise = torch.rand(x.shape, generator=self.generator, dtype=torch.float64) * 4 - 2
        scale = (noise * torch.finfo(x.dtype).eps).to(torch.float64)
        wide = torch.complex128 if x.is_complex() else torch.float64
        return torch.empty_like(x).copy_(x.to(wide) * (1 + scale))


_TOLERANCE = {
    torch.float64: 1e-9,
    torch.complex128: 1e-9,
    torch.float32: 2e-5,
    torch.complex64: 2e-5,
    torch.float16: 3e-3,
    torch.bfloat16: 2e-2,
}


def _difference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """0 where both are the same NaN or infinity, infinite where one of them is."""
    wide = torch.complex128 if b.is_complex() else torch.float64
    a, b = a.to(wide), b.to(wide)
    same = (a == b) | (a.isnan() & b.isnan())
    difference = (a - b).abs()
    difference = torch.where(difference.isnan(), float("inf"), difference)
    return torch.where(same, 0.0, difference)


def compare(actual: list[Any], expected: list[Any], noisy: list[list[Any]]) -> str:
    """Why `actual` is wrong, or nothing."""
    for k, (a, b) in enumerate(zip(actual, expected)):
        if not isinstance(b, torch.Tensor):
            if a != b and not (isinstance(b, float) and abs(a - b) < 1e-4 * (1 + abs(b))):
                return f"value {k}: {a} for {b}"
            continue
        if a is None or a.dtype != b.dtype or a.shape != b.shape:
            return f"value {k}: {a if a is None else (a.dtype, a.shape)} for {b.dtype, b.shape}"
        spread = torch.zeros(b.shape, dtype=torch.float64)
        for other in noisy:
            spread = torch.maximum(spread, _difference(other[k], b))
        error = _difference(a, b)
        if b.is_floating_point() or b.is_complex():
            # Of a large result that cancels, the largest number counts.
            finite = b.abs().double().nan_to_num(0, 0, 0)
            largest = finite.max() if finite.numel() else 0
            bound = _TOLERANCE[b.dtype] * (1 + finite + 0.1 * largest) + 30 * spread
        else:
            bound = torch.where(spread > 0, float("inf"), 0.0)
        wrong = error > bound
        if wrong.any():
            at = tuple(int(i) for i in wrong.nonzero()[0])
            return f"value {k} at {at}: {a[at]} for {b[at]} ({int(wrong.sum())} of {b.numel()})"
    return "" if len(actual) == len(expected) else "another number of values"


class Invalid(Exception):
    """Eager mode rejects the program."""


def eager_outcome(program: Program, n: int, noise: int | None = None) -> list[Any]:
    fn = program.function()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with nullcontext() if noise is None else Rounding(noise):
                return program.outcome(fn, n)
    except Exception as problem:
        raise Invalid(str(problem)) from problem


def check(program: Program, run: Fn, sizes: Iterable[int]) -> str:
    """Why what `run` computes is wrong, or nothing; sizes that eager mode rejects are left out."""
    for n in sizes:
        try:
            expected = eager_outcome(program, n)
        except Invalid:
            continue
        actual = program.outcome(run, n)
        if compare(actual, expected, []):
            noisy = [eager_outcome(program, n, seed) for seed in range(4)]
            why = compare(actual, expected, noisy)
            if why:
                return f"n = {n}: {why}"
    return ""


_OPERAND = re.compile(r"\{([a-z])(\d?)\}")


class Writer:
    def __init__(self, seed: int, trains: bool = False, special: bool = False) -> None:
        self.random = random.Random(seed)
        self.trains = trains
        self.special = special
        main = self.random.choice((torch.float32,) * 5 + _FLOATS)
        self.arguments = [self._argument(main) for _ in range(self.random.randint(2, 4))]
        self.lines: list[str] = []
        self.draws: list[str] = []
        self.count = 0
        program = self.program([])
        self.scopes = [
            {**SCOPE, **{f"x{k}": x for k, x in enumerate(program.inputs(n))}} for n in SIZES
        ]
        self.names = [f"x{k}" for k in range(len(self.arguments))]

    def _argument(self, main: torch.dtype) -> Argument:
        kinds = (main,) * 6 + (torch.float32, torch.bool, torch.complex64) + _INTEGERS
        if self.trains:
            kinds = (main,) * 8 + (torch.int64, torch.bool)
        return Argument(
            self.random.choice(kinds), self.random.choice(_SHAPES), self.random.choice(_LAYOUTS)
        )

    def program(self, results: list[str]) -> Program:
        retains = self.trains and len(self.lines) % 3 == 0
        return Program(
            list(self.lines),
            results,
            self.arguments,
            self.special,
            self.trains,
            retains,
            tuple(self.draws),
        )

    def _operand(self, kind: str) -> str | None:
        found = [name for name in self.names if _is(self.scopes[0][name], kind)]
        if not found:
            return None
        recent = found[-3:]
        return self.random.choice(recent if self.random.random() < 0.5 else found)

    def _fill(self, template: str) -> str | None:
        chosen: dict[str, str | None] = {}
        for match in _OPERAND.finditer(template):
            if match[0] not in chosen:
                numbers = _NUMBERS.get(match[1])
                chosen[match[0]] = (
                    self.random.choice(numbers) if numbers else self._operand(match[1])
                )
        if None in chosen.values():
            return None
        return _OPERAND.sub(lambda match: str(chosen[match[0]]), template)

    def try_statement(self, template: str, kind: str) -> bool:
        text, _, count = template.partition(" -> ")
        filled = self._fill(text)
        if filled is None:
            return False
        if kind == "writes":
            if any(_repeats_memory(self.scopes[0][name]) for name in self.names if name in filled):
                return False  # eager mode leaves undefined what such a write does
            names, line = [], filled
        else:
            names = [f"t{self.count + k}" for k in range(int(count or 1))]
            value, _, context = filled.partition(" in torch.")
            line = f"{', '.join(names)} = {value}"
            if context:
                line = f"with torch.{context}: {line}"
        trial = [dict(scope) for scope in self.scopes]
        try:
            for scope in trial:
                torch.manual_seed(1)
                exec(line, scope)
                if not all(_usable(scope[name], self.special) for name in names):
                    return False
        except Exception:
            return False
        self.scopes = trial
        self.lines.append(line)
        self.names += names
        if kind == "random":
            self.draws += names
        self.count += len(names)
        return True


def _repeats_memory(x: torch.Tensor) -> bool:
    return any(step == 0 and size > 1 for size, step in zip(x.shape, x.stride()))


def _is(x: torch.Tensor, kind: str) -> bool:
    if kind == "f":
        return x.is_floating_point()
    if kind == "b":
        return x.dtype == torch.bool
    if kind == "z":
        return x.is_complex()
    if kind == "i":
        return not x.is_floating_point() and not x.is_complex() and x.dtype != torch.bool
    return not x.is_complex() and (kind == "x" or x.dtype != torch.bool)


def _usable(x: Any, special: bool) -> bool:
    if not isinstance(x, torch.Tensor) or x.numel() > MAX_ELEMENTS or x.dim() > 5:
        return False
    if not x.is_floating_point() or special or x.numel() == 0:
        return True
    value = x.detach()
    return bool(value.isfinite().all()) and float(value.abs().max()) < 1e4


def templates(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


# Eager mode's attention gives 0 for a row of NaN, its var_mean NaN for the mean of an infinity and
# finite numbers. Its convolutions leave out zeros around the image that an infinite weight would
# make NaN, its searches in sorted sequences with NaN compare some elements, ours all.
_UNDEFINED_FOR_SPECIAL = ("attention", "_mean(", "conv1d", "conv2d", "searchsorted", "bucketize")

GROUPS = {
    "pointwise": (templates(random_ops.POINTWISE), 4),
    "folds": (templates(random_ops.FOLDS), 3),
    "views": (templates(random_ops.VIEWS), 4),
    "indexing": (templates(random_ops.INDEXING), 2),
    "products": (templates(random_ops.PRODUCTS), 3),
    "writes": (templates(random_ops.WRITES), 2),
    "control": (templates(random_ops.CONTROL), 1.5),
    "random": (templates(random_ops.RANDOM), 0.3),
    "promotion": (templates(random_ops_types.PROMOTION), 2),
    "empty": (templates(random_ops_types.EMPTY), 0.5),
    "layouts": (templates(random_ops_types.LAYOUTS), 1),
    "data sizes": (templates(random_ops_types.DATA_SIZES), 0.5),
}


def random_program(
    seed: int, trains: bool = False, special: bool = False, groups: dict[str, Any] = GROUPS
) -> Program:
    """The same program for the same seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writer = Writer(seed, trains, special)
        draw = writer.random
        wanted = draw.randint(3, 14)
        kinds = list(groups)
        weights = [groups[kind][1] for kind in kinds]
        for _ in range(wanted * 40):
            (kind,) = draw.choices(kinds, weights)
            template = draw.choice(groups[kind][0])
            if not (special and any(word in template for word in _UNDEFINED_FOR_SPECIAL)):
                writer.try_statement(template, kind)
            if len(writer.lines) == wanted:
                break
    made = writer.names[len(writer.arguments) :] or writer.names
    results = sorted({draw.choice(made) for _ in range(draw.randint(1, 4))} | {made[-1]})
    return writer.program(results)


def reduced(program: Program, fails: Callable[[Program], bool]) -> Program:
    """The smallest program found that still fails, by dropping statements and results."""
    for parts in ("results", "lines"):
        for k in reversed(range(len(getattr(program, parts)))):
            kept = [part for at, part in enumerate(getattr(program, parts)) if at != k]
            candidate = replace(program, **{parts: kept})
            if candidate.results and fails(candidate):
                program = candidate
    return program
