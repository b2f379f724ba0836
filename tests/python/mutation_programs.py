"""Random functions that mutate their arguments: copies, views, partial writes, swaps.

They test that memory is read before it is overwritten. A program is source text, so a failure can
be read and run by itself.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

ROWS, COLUMNS = 4, 6


@dataclass(frozen=True)
class Variable:
    name: str
    root: str  # whose memory it is
    is_dense: bool = True  # view(-1) is allowed


@dataclass
class Program:
    """The function `program` of `source`; `is_dense` tells the layout of each argument."""

    source: str
    is_dense: tuple[bool, ...]

    def function(self) -> Callable[..., Any]:
        scope: dict[str, Any] = {"torch": torch}
        exec(compile(self.source, "<random program>", "exec"), scope)
        return scope["program"]

    def arguments(self, rows: int = ROWS) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(3)
        out = []
        for is_dense in self.is_dense:
            sizes = (rows, COLUMNS) if is_dense else (COLUMNS, rows)
            tensor = torch.rand(sizes, generator=generator) * 2 - 1
            out.append(tensor if is_dense else tensor.t())
        return out


@dataclass
class _Writer:
    random: random.Random
    lines: list[str] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    locals: int = 0

    def any(self) -> Variable:
        return self.random.choice(self.variables)

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    # Windows: pairs of what is written and what is read, of one shape.

    def _whole(self, v: Variable) -> str:
        return self.pick(v.name, v.name, f"{v.name}[:]", f"{v.name}.t().t()")

    def _part(self, v: Variable, kind: str) -> str:
        at = self.random.randrange
        if kind == "rows":
            return f"{v.name}[{(k := at(2))}:{k + 2}]"
        if kind == "columns":
            return self.pick(f"{v.name}[:, {(k := at(4))}:{k + 3}]", f"{v.name}[:, ::2]")
        if kind == "row":
            return f"{v.name}[{at(3)}]"
        if kind == "column":
            return f"{v.name}[:, {at(6)}]"
        return f"{v.name}.view(-1)[{(k := at(9))}:{k + 7}]"

    def _pair(self) -> tuple[str, str]:
        to, of = self.any(), self.any()
        kind = self.pick("whole", "whole", "whole", "rows", "columns", "row", "column", "flat")
        if kind == "flat" and not (to.is_dense and of.is_dense):
            kind = "rows"
        if kind == "whole":
            target, source = self._whole(to), self._source(of)
        else:
            target, source = self._part(to, kind), self._part(of, kind)
        # Eager mode leaves undefined what a write into memory that it also reads does.
        return target, f"{source}.clone()" if to.root == of.root else source

    def _source(self, v: Variable) -> str:
        other = self.any().name
        return self.pick(
            v.name,
            v.name,
            v.name,
            f"{v.name}.clone()",
            f"{v.name}.flip(1)",
            f"({v.name} * 0.5)",
            f"({v.name} + {other})",
            f"torch.lerp({v.name}, {other}, 0.25)",
            f"({v.name} - {other}.mean(1, keepdim=True))",
            f"{v.name}[0:1].expand_as({v.name})",
        )

    def statement(self) -> None:
        kind = self.random.randrange(12)
        if kind < 3:
            target, source = self._pair()
            self.lines.append(self.pick(f"{target}.copy_({source})", f"{target}[...] = {source}"))
        elif kind < 6:
            target, source = self._pair()
            self.lines.append(
                f"{target}."
                + self.pick(
                    f"add_({source})",
                    f"sub_({source}, alpha=0.5)",
                    f"lerp_({source}, 0.5)",
                    "mul_(0.75)",
                    "zero_()",
                    f"addcmul_({source}, {source}, value=0.25)",
                )
            )
        elif kind == 6:
            self._swap()
        elif kind == 7:
            self._rotate()
        elif kind == 8:
            v = self.any()
            self._name(v.name if self.random.random() < 0.5 else f"{v.name}.detach()", v.root, v)
        elif kind == 9:
            v = self.any()
            self._name(f"{v.name}.clone()", None, v)
        elif kind == 10:
            self._name(self._source_of_own(), None, None)
        else:
            v, rows = self.any(), "torch.tensor([2, 0])"
            source = self._part(self.any(), "rows")
            self.lines.append(
                self.pick(
                    f"{v.name}.index_copy_(0, {rows}, {source}.clone())",
                    f"{v.name}.index_add_(0, {rows}, {source}.clone(), alpha=0.5)",
                    f"{v.name}[{rows}] = {source}.clone()",
                )
            )

    def _source_of_own(self) -> str:
        a, b = self.any().name, self.any().name
        return self.pick(f"{a} * {b}", f"torch.tanh({a})", f"{a} - {b}.sum(0)")

    def _name(self, value: str, root: str | None, of: Variable | None) -> None:
        name = f"t{self.locals}"
        self.locals += 1
        self.lines.append(f"{name} = {value}")
        # The layout of arithmetic results follows the operands: no guarantee about view(-1).
        is_dense = of is not None and of.is_dense
        self.variables.append(Variable(name, root or name, is_dense))

    def _swap(self) -> None:
        a, b = self.any(), self.any()
        if a.root == b.root:
            return
        name = f"t{self.locals}"
        self.locals += 1
        self.lines += self.random.choice(
            [
                [
                    f"{name} = {a.name}.clone()",
                    f"{a.name}.copy_({b.name})",
                    f"{b.name}.copy_({name})",
                ],
                [
                    f"{name} = {a.name} - {b.name}",
                    f"{a.name}.copy_({b.name})",
                    f"{b.name}.add_({name})",
                ],
                [
                    f"{name} = {b.name}[1:3].clone()",
                    f"{b.name}[1:3] = {a.name}[0:2]",
                    f"{a.name}[0:2] = {name}",
                ],
            ]
        )

    def _rotate(self) -> None:
        chosen = self.random.sample(self.variables, min(3, len(self.variables)))
        if len({v.root for v in chosen}) < len(chosen):
            return
        name = f"t{self.locals}"
        self.locals += 1
        self.lines.append(f"{name} = {chosen[0].name}.clone()")
        for to, of in itertools.pairwise(chosen):
            self.lines.append(f"{to.name}.copy_({of.name})")
        self.lines.append(f"{chosen[-1].name}.copy_({name})")

    def result(self) -> str:
        v = self.any()
        return self.pick(v.name, f"{v.name}[1:]", f"{v.name}.t()", f"{v.name}.sum(1)")


def random_program(seed: int, statements: int) -> Program:
    """The same program for the same seed."""
    draw = random.Random(seed)
    arguments = [Variable(f"x{k}", f"x{k}", draw.random() < 0.8) for k in range(draw.randint(2, 4))]
    writer = _Writer(draw, variables=list(arguments))
    for _ in range(statements):
        writer.statement()
    results = ", ".join(writer.result() for _ in range(draw.randint(1, 3)))
    names = ", ".join(v.name for v in arguments)
    body = "".join(f"    {line}\n" for line in [*writer.lines, f"return ({results},)"])
    return Program(f"def program({names}):\n{body}", tuple(v.is_dense for v in arguments))
