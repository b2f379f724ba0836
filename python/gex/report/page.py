"""`gex.report`: one HTML page that shows what the engine did, why, and where the time goes."""

from __future__ import annotations

import contextlib
import html
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Union, overload

from gex import _gex
from gex.report.explanation import _seconds, graphs_of
from gex.report.graph_report import GraphReport, collect, reports

StrPath = Union[str, "os.PathLike[str]"]

# Calls that are traced by gex.report(fn, *arguments): the fastest is shown.
_CALLS = 5

_tracing = 0  # contexts that are tracing calls


@dataclass(frozen=True)
class Report:
    """Everything that a report shows, as JSON: `text`, or `model`, which is parsed.

    Notebooks display it as a page.
    """

    text: str

    @property
    def model(self) -> dict[str, Any]:
        model: dict[str, Any] = json.loads(self.text)
        return model

    def html(self) -> str:
        return _gex.report_page([self.text])

    def save(self, path: StrPath) -> None:
        """Writes the page, or with a name that ends in .json the model."""
        name = _checked(path)
        with open(name, "w", encoding="utf-8") as file:
            file.write(self.text if name.endswith(".json") else self.html())

    def _repr_html_(self) -> str:
        page = html.escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:720px;border:0"></iframe>'

    def __str__(self) -> str:
        graphs = self.model["graphs"]
        number = "1 graph" if len(graphs) == 1 else f"{len(graphs)} graphs"
        lines = [f"report of {number}; .save('report.html') writes the page"]
        for graph in graphs:
            timeline = graph.get("timeline")
            took = f", {timeline['ns'] / 1e6:.3f} ms a call" if timeline else ""
            lines.append(
                f"  {graph['name']}: {len(graph['nodes'])} nodes, {len(graph['steps'])} steps, "
                f"{graph['memory']['total']} bytes of temporaries{took}"
            )
        return "\n".join(lines)


def _checked(path: StrPath) -> str:
    """The path; an error before anything is run for a report that could not be written."""
    name = os.fspath(path)
    if not name.endswith((".html", ".htm", ".json")):
        raise ValueError(f"{name!r}: a report is a page (.html) or its data (.json)")
    folder = os.path.dirname(name) or "."
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"the report can't be written: there is no folder {folder!r}")
    return name


class Recording:
    """Context that traces the calls inside and writes the page at the end; `report` is set then."""

    def __init__(self, path: StrPath, title: str = "") -> None:
        self.path = _checked(path)
        self.title = title or os.path.splitext(os.path.basename(os.fspath(path)))[0]
        self.report: Report | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Recording:
        self._keeper = self._stack.enter_context(traced())
        self._compiled = self._stack.enter_context(collect())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()
        if problem is not None:
            return
        called = [r for r in reports() if r.runner is not None and self._keeper.has(r.runner)]
        graphs = list(dict.fromkeys([*self._compiled, *called]))
        self.report = make(graphs, self._keeper, self.title, self._compiled)
        self.report.save(self.path)


@contextlib.contextmanager
def traced() -> Iterator[_gex.TraceKeeper]:
    """Traces all calls of the process inside the block."""
    global _tracing
    keeper = _gex.TraceKeeper()
    _tracing += 1
    _gex.set_tracing(keeper)
    try:
        yield keeper
    finally:
        _tracing -= 1
        _gex.set_tracing(None)


def is_tracing() -> bool:
    return _tracing > 0


def make(
    graphs: Sequence[GraphReport],
    keeper: _gex.TraceKeeper | None,
    title: str,
    compiled_now: Sequence[GraphReport],
) -> Report:
    models = [_gex.graph_model(g.runner, keeper, True) for g in graphs if g.runner is not None]
    first_call = [(stage, seconds) for stage, seconds in _seconds(list(compiled_now)).items()]
    extra = {"graphs": {g.name: _facts_of(g) for g in graphs}}
    return Report(
        _gex.report_model(
            title,
            [model for model in models if model is not None],
            first_call if any(seconds for _, seconds in first_call) else [],
            # "</" would end the script that holds the model.
            json.dumps(extra).replace("<", "\\u003c"),
        )
    )


def _facts_of(graph: GraphReport) -> dict[str, Any]:
    origin = graph.origin
    return {
        "backend": graph.backend,
        "calls": [{"op": c.op, "reason": c.reason, "at": c.location or ""} for c in graph.calls],
        "eager": graph.eager_reason,
        "end": graph.end,
        "recompile": None if origin is None else origin.recompile_reason,
        "notes": [*graph.notes, *graph.no_regions],
    }


@overload
def report(subject: StrPath, *, title: str = ...) -> Recording: ...
@overload
def report(subject: Callable[..., Any], *args: Any, title: str = ..., **kwargs: Any) -> Report: ...
def report(subject: Any, *args: Any, title: str = "", **kwargs: Any) -> Recording | Report:
    """A page that shows what the engine did, why, and where the time goes.

    `with gex.report("report.html"):` traces the calls inside and writes the page at the end.
    `gex.report(compiled)` reports on a compiled function; with arguments it is called
    with them a few times first, which gives the timeline. The result has `save(path)` and is
    displayed as a page in notebooks."""
    if isinstance(subject, (str, os.PathLike)):
        if args or kwargs:
            raise TypeError(
                "gex.report(path) takes no call arguments: use it as a context around calls"
            )
        return Recording(subject, title)
    if not callable(subject):
        raise TypeError(
            "gex.report takes the path of a page or a compiled function, "
            f"got {type(subject).__name__}"
        )
    return _report_of(subject, args, kwargs, title or getattr(subject, "__name__", "") or "report")


def _report_of(fn: Callable[..., Any], args: Any, kwargs: Any, title: str) -> Report:
    import torch

    from gex.compat.dynamo import is_compiled

    of_export = getattr(fn, "report", None)  # gex.compile has made fn
    exported = isinstance(of_export, GraphReport)
    if not exported and not is_compiled(fn):
        if not args and not kwargs:
            raise TypeError(
                "gex.report: this function is not compiled and no arguments are given; compile it "
                "by torch.compile(fn, backend='gex') and call it, or give arguments"
            )
        fn = torch.compile(fn, backend="gex")
    keeper, compiled = None, []
    if args or kwargs:
        with traced() as keeper, collect() as compiled:
            for _ in range(_CALLS):
                fn(*args, **kwargs)
            _gex.wait_for_background()  # code for these sizes
            for _ in range(_CALLS):
                fn(*args, **kwargs)
    graphs = [of_export] if isinstance(of_export, GraphReport) else graphs_of(fn)
    return make(graphs or compiled, keeper, title, compiled or graphs)
