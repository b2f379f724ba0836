"""`gex.explain`: describes the compiled graphs, and where the time of a first call went."""

from __future__ import annotations

import html
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gex.report.graph_report import GraphReport, collect, reports

if TYPE_CHECKING:
    from gex.dynamo.frame_origin import Origin

_STAGES = {
    "dynamo": "Dynamo: bytecode to FX, guards",
    "aot": "AOTAutograd: FX to ATen",
    "import": "import: ATen to a Graph",
    "passes": "passes",
    "fuse": "fusion and lowering to kernels",
    "code": "code: LLVM",
    "plan": "plan: program, memory, captures",
    "run": "the first run itself",
}


@dataclass
class Explanation:
    graphs: list[GraphReport]
    seconds: dict[str, float] = field(default_factory=dict)  # by stage; their sum is the first call

    @property
    def captures(self) -> list[dict[str, Any]]:
        """Of all graphs: key, hits, arena_bytes, reason, note; see GraphReport.runner.captures."""
        return [c for g in self.graphs if g.runner is not None for c in g.runner.captures]

    @property
    def recompiles(self) -> list[str]:
        """Why Dynamo recompiled, in Dynamo's wording, oldest first."""
        origins = dict.fromkeys(g.origin for g in self.graphs if g.origin is not None)
        return [o.recompile_reason for o in origins if o.recompile_reason is not None]

    @property
    def native_share(self) -> float:
        calls = sum(len(g.calls) for g in self.graphs)
        native = sum(g.native + g.decomposed for g in self.graphs)
        return 1.0 if native + calls == 0 else native / (native + calls)

    def table(self) -> str:
        """The time of each stage."""
        total = sum(self.seconds.values())
        rows = [(_STAGES[stage], seconds) for stage, seconds in self.seconds.items()]
        rows.append(("first call" if "run" in self.seconds else "total", total))
        return "\n".join(
            f"  {what:<34}{seconds:8.3f} s {seconds / (total or 1.0):6.1%}"
            for what, seconds in rows
        )

    def __str__(self) -> str:
        more = (
            "gex.report(fn, *arguments).save('report.html') shows times, code and memory as a page"
        )
        return "\n".join([*(g.text() for g in self.graphs), self.table(), more])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def explain(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Describes each graph of `fn`: what became native, what was captured and why, and times.

    With arguments, `fn` is called with them first. Without, the report covers the calls made so
    far. A function or module that is not compiled yet is compiled with backend "gex".
    """
    import torch

    from gex.compat.dynamo import is_compiled as is_compiled_by_dynamo
    from gex.compat.tracing import seconds_compiling

    of_export = getattr(fn, "report", None)  # fn was made by gex.compile
    if isinstance(of_export, GraphReport):
        if args or kwargs:
            fn(*args, **kwargs)
        return Explanation([of_export], _seconds([of_export]))
    is_compiled = is_compiled_by_dynamo(fn)
    known = graphs_of(fn) if is_compiled and not args and not kwargs else []
    if known:
        return Explanation(known, _seconds(known))
    _check_arguments(fn, args, kwargs)
    compiled = fn if is_compiled else torch.compile(fn, backend="gex")
    compiling_before = seconds_compiling()
    start = time.perf_counter()
    with collect() as graphs:
        compiled(*args, **kwargs)
    total = time.perf_counter() - start
    stages = _seconds(graphs)
    in_backend = sum(stages.values()) - stages["dynamo"] - sum(g.capture_seconds for g in graphs)
    stages["dynamo"] = max(0.0, seconds_compiling() - compiling_before - in_backend)
    stages["run"] = max(0.0, total - sum(stages.values()))
    return Explanation(graphs, stages)


def _check_arguments(fn: Callable[..., Any], args: Any, kwargs: Any) -> None:
    try:
        inspect.signature(getattr(fn, "forward", fn)).bind(*args, **kwargs)
    except TypeError as problem:
        raise TypeError(
            f"gex.explain: nothing is compiled yet and a call fails: {problem}. "
            "Call the compiled function first, or pass its arguments: gex.explain(fn, x, ...)"
        ) from None
    except ValueError:
        pass  # no signature available: the call itself will fail


def graphs_of(fn: Callable[..., Any]) -> list[GraphReport]:
    """Reports of the current graphs of a compiled function or module."""
    import torch

    from gex.compat.dynamo import uncompiled

    module = getattr(fn, "_orig_mod", None)
    inner = uncompiled(fn) if module is None else module.forward
    if module is None:
        module = getattr(inner, "__self__", None)
    # After a graph break there may be graphs of parts of a module.
    parts = list(module.modules()) if isinstance(module, torch.nn.Module) else []
    functions = [inspect.unwrap(f) for f in (inner, *(part.forward for part in parts))]
    codes = {f.__code__ for f in functions if hasattr(f, "__code__")}

    def is_of(origin: Origin | None) -> bool:
        if origin is None:
            return False
        whole = origin.module or (origin.owner if parts else None)
        if whole is not None:
            return any(whole() is part for part in parts)
        return origin.code in codes

    return [graph for graph in reports() if is_of(graph.origin)]


def _seconds(graphs: list[GraphReport]) -> dict[str, float]:
    return {stage: sum(g.times[stage] for g in graphs) for stage in _STAGES if stage != "run"}
