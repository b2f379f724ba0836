"""`gex bisect script.py`: finds the first stage, pass or kernel that makes compiled results differ.

Every graph that the script compiles is run again with the arguments of its calls: as traced by
Dynamo and AOTAutograd (aot_eager), after each FX stage (force_eager), imported, after each engine
pass, without fusion, and fully compiled. The first form with different results is reported.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule

from gex import fx_stage
from gex.debug import inspection
from gex.debug.graph_forms import Culprit, find_culprit
from gex.debug.graph_runs import Arguments, Compiled, Tolerance, copy_of, eager
from gex.debug.inspection import Compilation


class Found(SystemExit):
    """Ends the script once the cause is known."""

    def __init__(self, culprit: Culprit) -> None:
        super().__init__(1)
        self.culprit = culprit


class Bisector:
    """The inspector that compares results."""

    def __init__(self, tolerance: Tolerance, calls: int) -> None:
        self._tolerance = tolerance
        self._calls = calls
        self._draws_otherwise = False  # the function being compiled draws other random numbers
        self._stages: dict[str, list[tuple[str, GraphModule]]] = {}
        self.graphs = 0
        self.compared = 0
        self.not_compared: list[str] = []

    def on_stage(self, subject: fx_stage.Subject, stage: str, gm: GraphModule) -> None:
        if stage != fx_stage.ALL_PASSES:  # the graph after the last one
            self._stages.setdefault(subject.graph, []).append((stage, copy_of(gm)))

    def dynamo_graph(self, gm: GraphModule, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """A difference that no ATen graph explains comes from AOTAutograd."""
        left = 0 if self._draws_otherwise else self._calls
        self._draws_otherwise = False

        def run(*arguments: Any) -> Any:
            nonlocal left
            if left == 0:
                return compiled(*arguments)
            left -= 1
            before = Arguments(arguments)
            results = compiled(*arguments)
            expected = before.run(lambda values: list(gm(*values)))
            actual = [*results, *arguments]
            difference = self._tolerance.first_difference(expected, actual)
            if difference is not None:
                raise Found(Culprit.of_aot(*difference))
            return results

        return run

    def aten_graph(self, compilation: Compilation, compiled: Compiled) -> Compiled:
        self.graphs += 1
        stages = self._stages.pop(compilation.graph, [])
        why_not = _why_not(compilation, stages)
        if why_not:
            self.not_compared.append(f"{compilation.graph}: {why_not}")
            self._draws_otherwise |= bool(stages)
            return compiled
        left = self._calls

        def run(arguments: list[Any]) -> Sequence[Any]:
            nonlocal left
            if left == 0:
                return compiled(arguments)
            left -= 1
            before, given = Arguments(arguments), list(arguments)
            results = compiled(arguments)
            expected = before.run(eager(stages[0][1]))
            self.compared += 1
            if self._tolerance.first_difference(expected, [*results, *given]) is not None:
                raise Found(find_culprit(compilation, stages, before, self._tolerance))
            return results

        run._boxed_call = True  # type: ignore[attr-defined]
        return run


def _why_not(compilation: Compilation, stages: Sequence[Any]) -> str:
    if not stages:
        return "runs PyTorch's kernels as they are"
    if compilation.config.get("random", "eager") == "fast":
        return "draws other random numbers than eager mode (random='fast')"
    return ""


def bisect(
    run: Callable[[], Any],
    rtol: float | None = None,
    atol: float | None = None,
    calls: int = 2,
) -> tuple[Culprit | None, Bisector]:
    """Runs something that compiles and calls graphs; stops at the first difference."""
    bisector = Bisector(Tolerance(rtol, atol), calls)
    remove = fx_stage.add_observer(bisector.on_stage)
    inspection.set_inspector(bisector)
    try:
        run()
    except Found as found:
        return found.culprit, bisector
    finally:
        inspection.set_inspector(None)
        remove()
    return None, bisector


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="gex bisect",
        description="Runs a PyTorch script and finds what makes its compiled results differ; "
        "exit code 1 if something does.",
    )
    parser.add_argument("--rtol", type=float, help="relative error allowed; default by dtype")
    parser.add_argument("--atol", type=float, help="absolute error allowed; default by dtype")
    parser.add_argument("--calls", type=int, default=2, help="calls of each graph to compare")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(words)
    if not os.path.isfile(given.script):
        print(f"gex bisect: file {given.script!r} does not exist", file=sys.stderr)
        return 1
    own_words, sys.argv = sys.argv, [given.script, *given.arguments]
    try:
        culprit, bisector = bisect(
            lambda: runpy.run_path(given.script, run_name="__main__"),
            given.rtol,
            given.atol,
            given.calls,
        )
    finally:
        sys.argv = own_words
    for line in bisector.not_compared:
        print(f"gex bisect: not compared: {line}")
    if culprit is not None:
        print(culprit.text)
        return 1
    if bisector.graphs == 0:
        print("gex bisect: the script compiled no graph with backend 'gex' or 'npugraph_ex'")
    else:
        print(
            f"gex bisect: {bisector.graphs} graphs, {bisector.compared} calls compared: "
            "results equal eager mode"
        )
    return 0
