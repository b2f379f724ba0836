"""`gex.explain`: what became of the graphs, and where the seconds of a first call went."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gex.report import GraphReport, collect

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
    seconds: dict[str, float] = field(default_factory=dict)  # by stage; together the first call

    @property
    def native_share(self) -> float:
        calls = sum(len(g.calls) for g in self.graphs)
        native = sum(g.native + g.decomposed for g in self.graphs)
        return 1.0 if native + calls == 0 else native / (native + calls)

    def table(self) -> str:
        """Where the seconds of the first call went."""
        total = sum(self.seconds.values())
        rows = [(_STAGES[stage], seconds) for stage, seconds in self.seconds.items()]
        rows.append(("first call", total))
        return "\n".join(
            f"  {what:<34}{seconds:8.3f} s {seconds / (total or 1.0):6.1%}"
            for what, seconds in rows
        )

    def __str__(self) -> str:
        return "\n".join([*(g.text() for g in self.graphs), self.table()])


def explain(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Calls `fn` for the first time and tells what each graph became and what took how long.

    A function or module that is not compiled yet is compiled with backend "gex".
    """
    import torch

    from gex.compile_times import seconds_compiling

    compiled = fn if _is_compiled(fn) else torch.compile(fn, backend="gex")
    compiling_before = seconds_compiling()
    start = time.perf_counter()
    with collect() as graphs:
        compiled(*args, **kwargs)
    total = time.perf_counter() - start
    stages = {stage: sum(g.times[stage] for g in graphs) for stage in _STAGES if stage != "run"}
    in_backend = sum(stages.values()) - stages["dynamo"] - sum(g.capture_seconds for g in graphs)
    stages["dynamo"] = max(0.0, seconds_compiling() - compiling_before - in_backend)
    stages["run"] = max(0.0, total - sum(stages.values()))
    return Explanation(graphs, stages)


def _is_compiled(fn: Callable[..., Any]) -> bool:
    import torch

    return isinstance(fn, torch._dynamo.OptimizedModule) or hasattr(
        fn, "_torchdynamo_orig_callable"
    )
