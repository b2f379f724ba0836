"""Compares the forms of one graph, from AOTAutograd's graph to compiled code, one by one."""

from __future__ import annotations

import difflib
import pathlib
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch.fx import GraphModule

from gex import _gex
from gex.debug.comparison import Comparison
from gex.debug.graph_nodes import target_name
from gex.debug.graph_runs import (
    Arguments,
    Compiled,
    Tolerance,
    eager,
    values_in_eager,
    with_probes,
)
from gex.debug.inspection import Compilation
from gex.importer.body_import import location_of
from gex.importer.graph_import import GraphImport, ImportedGraph
from gex.options.engine_flags import options_of

Stages = Sequence[tuple[str, GraphModule]]

_PASS = re.compile(r"\d+_after_(.+)\.gex")
_LINE = re.compile(r'@ "([^"]*?)(?:\(pass [^"]*)?"')  # passes add their names to the lines
_NUMBER = re.compile(r"%\d+\b")
_SHOWN = 12  # changed lines
_LINES_SHOWN = 3  # of the user's


@dataclass
class Culprit:
    """The fault, its location, and the forms that were tried."""

    what: str
    difference: str
    tried: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)  # of the user's code
    changes: list[str] = field(default_factory=list)

    @classmethod
    def of_aot(cls, position: int, difference: Comparison) -> Culprit:
        return cls(
            "AOTAutograd (backend aot_eager)",
            f"result {position}: {difference.text}",
            ["every ATen graph has the results that its own eager run has"],
        )

    @property
    def text(self) -> str:
        parts = [f"gex bisect: {line}" for line in self.tried]
        parts.append(f"gex bisect: first wrong: {self.what}")
        parts.append(f"  {self.difference}")
        parts += [f"  your line: {line}" for line in self.lines[:_LINES_SHOWN]]
        parts += [f"  {change}" for change in self.changes[:_SHOWN]]
        if len(self.changes) > _SHOWN:
            parts.append(f"  ... and {len(self.changes) - _SHOWN} more changed lines")
        return "\n".join(parts)


def find_culprit(
    compilation: Compilation, stages: Stages, arguments: Arguments, tolerance: Tolerance
) -> Culprit:
    return _Search(compilation, stages, arguments, tolerance).run()


class _Search:
    def __init__(
        self, compilation: Compilation, stages: Stages, arguments: Arguments, tolerance: Tolerance
    ) -> None:
        self._compilation = compilation
        self._stages = stages
        self._arguments = arguments
        self._tolerance = tolerance
        self._expected = arguments.run(eager(stages[0][1]))
        self._tried = [f"{compilation.graph}: compiled results are not those of aot_eager"]

    def run(self) -> Culprit:
        imported = self._compilation.imported
        culprit = self._fx_stages()
        if culprit is None and imported is not None:
            culprit = self._import(imported) or self._passes(imported) or self._code(imported)
        if culprit is None:
            culprit = Culprit("this call alone", "run again, every form gives the right results")
        return replace(culprit, tried=[*self._tried, *culprit.tried])

    def _difference(self, form: Compiled) -> str | None:
        found = self._tolerance.first_difference(self._expected, self._arguments.run(form))
        return None if found is None else f"result {found[0]}: {found[1].text}"

    # --- FX ---------------------------------------------------------------------------------

    def _fx_stages(self) -> Culprit | None:
        for (_, before), (name, after) in zip(self._stages, self._stages[1:]):
            difference = self._difference(eager(after))
            if difference is not None:
                return self._fx_culprit(name, before, after, difference)
        self._tried.append("right: force_eager (the graph after every FX stage)")
        return None

    def _fx_culprit(
        self, name: str, before: GraphModule, after: GraphModule, difference: str
    ) -> Culprit:
        old, new = _calls(before), _calls(after)
        removed = [node for call, node in old.items() if call not in new]
        added = [node for call, node in new.items() if call not in old]
        lines = [location_of(node) for node in (*removed, *added)]
        changes = [f"- {node.format_node()}" for node in removed]
        changes += [f"+ {node.format_node()}" for node in added]
        lines = list(dict.fromkeys(line for line in lines if line))
        return Culprit(f"FX stage {name}", difference, [], lines, changes)

    # --- the engine -------------------------------------------------------------------------

    def _interpreted(self, imported: ImportedGraph, graph: _gex.Graph) -> Compiled:
        runner = _gex.interpreter_runner(graph, imported.signature(), imported.callees)
        return imported.adapter.wrap(runner)

    def _import(self, imported: ImportedGraph) -> Culprit | None:
        difference = self._difference(self._interpreted(imported, imported.graph))
        if difference is None:
            self._tried.append("right: the imported graph in the reference executor")
            return None
        culprit = self._node(lambda i: self._interpreted(i, i.graph), "import of")
        return culprit or Culprit("the import of the graph", difference)

    def _passes(self, imported: ImportedGraph) -> Culprit | None:
        texts = [("import", imported.graph.text()), *self._texts_after_passes(imported)]
        right, wrong = 0, len(texts)  # of the last right form, and of the first wrong one
        differences: dict[int, str] = {}
        while wrong - right > 1:
            # The last one first: most often all are right.
            middle = (right + wrong) // 2 if wrong < len(texts) else len(texts) - 1
            graph = _gex.Graph.parse(texts[middle][1])
            difference = self._difference(self._interpreted(imported, graph))
            if difference is None:
                right = middle
            else:
                differences[middle], wrong = difference, middle
        if wrong == len(texts):
            self._tried.append(f"right: the graph after each of {len(texts) - 1} passes")
            return None
        changes = _changes(texts[right][1], texts[wrong][1])
        lines = list(dict.fromkeys(line for c in changes for line in _LINE.findall(c)))
        name = f"pass {texts[wrong][0]} (number {wrong} of {len(texts) - 1} that changed the graph)"
        return Culprit(name, differences[wrong], [], lines, changes)

    def _texts_after_passes(self, imported: ImportedGraph) -> list[tuple[str, str]]:
        with tempfile.TemporaryDirectory() as folder:
            self._compiled(imported, dump_dir=folder)
            found = [(_PASS.fullmatch(p.name), p) for p in sorted(pathlib.Path(folder).iterdir())]
            return [(m[1], p.read_text(encoding="utf-8")) for m, p in found if m]

    def _compiled(self, imported: ImportedGraph, **how: object) -> Compiled:
        options = options_of(self._compilation.config)
        for name, value in {"capture_limit": 1, "autotune": False, **how}.items():
            setattr(options, name, value)
        runner = _gex.compiled_runner(
            imported.graph,
            imported.signature(),
            imported.callees,
            _gex.CaptureOptions(),
            options,
        )
        return imported.adapter.wrap(runner)

    def _code(self, imported: ImportedGraph) -> Culprit | None:
        difference = self._difference(self._compiled(imported))
        if difference is None:
            return None
        fused = self._difference(self._compiled(imported, generate_code=False)) is not None
        alone = self._difference(self._compiled(imported, fuse=False)) is not None
        self._tried.append(f"{'wrong' if fused else 'right'}: fused kernels, interpreted")
        self._tried.append(f"{'wrong' if alone else 'right'}: compiled, one kernel for each op")
        culprit = self._node(self._compiled, "kernel of")
        what = "fusion" if fused and not alone else "the code of a kernel"
        return culprit or Culprit(f"{what}; with every value stored it is right", difference)

    def _node(
        self, compiled_form: Callable[[ImportedGraph], Compiled], what: str
    ) -> Culprit | None:
        """The first node whose tensor differs if every tensor is stored."""
        gm = self._stages[-1][1]
        right = values_in_eager(gm, self._arguments)
        probed, values = with_probes(gm)
        fast_random = self._compilation.config.get("random", "eager") == "fast"
        imported = GraphImport(probed, "probed", fast_random=fast_random).run()
        self._arguments.run(compiled_form(imported))
        for node in gm.graph.nodes:
            if node.name not in right or node.name not in values:
                continue
            result = self._tolerance.compare(right[node.name], values[node.name])
            if not result.same:
                line = location_of(node)
                name = f"{what} {node.name} ({target_name(node)})"
                return Culprit(name, result.text, [], [line] if line else [])
        return None


def _calls(gm: GraphModule) -> dict[str, torch.fx.Node]:
    return {str(node.format_node()): node for node in gm.graph.nodes if node.op != "placeholder"}


def _changes(before: str, after: str) -> list[str]:
    """Removed and added nodes. Value numbers shift after a change; such differences are ignored."""
    old, new = before.splitlines(), after.splitlines()
    matcher = difflib.SequenceMatcher(
        None, [_NUMBER.sub("%", x) for x in old], [_NUMBER.sub("%", x) for x in new], autojunk=False
    )
    changes = []
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if kind != "equal":
            changes += [f"-{line}" for line in old[old_from:old_to]]
            changes += [f"+{line}" for line in new[new_from:new_to]]
    return changes
