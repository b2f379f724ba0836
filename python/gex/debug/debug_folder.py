"""TORCH_COMPILE_DEBUG=1: writes each graph after each stage to files.

torch_compile_debug/run_<time>-pid_<pid>[-rank_<r>]/npugraph_ex/, beside torchdynamo/debug.log
  debug.log                                    our log, level DEBUG
  model__<n>/dynamo_out_graph.txt              absent under compile__<n>/compile_fx
  model__<n>/forward/000_aot_forward_graph.txt ATen, as AOTAutograd passed it
  .../001_aot_forward_graph_after_<stage>.txt  ATen after each FX stage, then the tensor IR:
                                               after `import` and each pass that changed it
  .../NNN_aot_forward_kernels.txt              fused kernels; then _program.txt
  .../NNN_aot_forward_plan_<k>.txt             memory of capture k
  .../output_code.py                           the graph as a script
  model__<n>/graph_<k>_id_<id>_rank_<dev>_pid_<pid>_ts_<UTC>.json   steps of a capture
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import re
import shutil
from collections.abc import Iterator

import torch
from torch.fx import GraphModule

from gex import fx_stage
from gex.compat import dynamo
from gex.debug import logs, output_code
from gex.options.table import Config

_DUMPED = re.compile(r"\d+_after_(?P<stage>.+)\.gex")
_NODE = re.compile(r"^\s*(?P<names>%[^=]*?)\s*=\s*(?P<op>[\w.]+)\(", re.MULTILINE)
_LEVELS = {"kernels.txt": "kernels", "program.txt": "program"}

_models: dict[str, itertools.count[int]] = {}  # by run folder
_logged: set[str] = set()
_phases: dict[str, PhaseFolder] = {}  # of graphs that are being compiled, by name


def wanted() -> bool:
    return os.environ.get("TORCH_COMPILE_DEBUG", "0") == "1"


def run_folder() -> pathlib.Path:
    """The run folder of this process, in PyTorch's debug folder."""
    path = pathlib.Path(dynamo.debug_folder())
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        path = path.with_name(f"{path.name}-rank_{torch.distributed.get_rank()}")
    return path / "npugraph_ex"


def _link_log_of_dynamo(run: pathlib.Path) -> None:
    """Links Dynamo's log here: Dynamo writes it to a folder without a rank."""
    own = pathlib.Path(dynamo.debug_folder())
    link = run / "torchdynamo"
    if run != own and not link.is_symlink():
        link.symlink_to(pathlib.Path("..") / own.name / "torchdynamo")


class ModelFolder:
    """The folder of one Dynamo graph, or of one call of compile_fx."""

    def __init__(self, kind: str) -> None:
        root = run_folder()
        root.mkdir(parents=True, exist_ok=True)
        if wanted() and str(root) not in _logged:
            _logged.add(str(root))
            logs.write_to(str(root / "debug.log"))
            _link_log_of_dynamo(root.parent)
        number = next(_models.setdefault(str(root), itertools.count()))
        self.kind = kind
        self.path = root / f"{kind}__{number}"
        self.path.mkdir()

    @classmethod
    def of_dynamo(cls, gm: GraphModule) -> ModelFolder | None:
        """None unless TORCH_COMPILE_DEBUG is set."""
        if not wanted():
            return None
        folder = cls("model")
        (folder.path / "dynamo_out_graph.txt").write_text(_readable(gm), encoding="utf-8")
        return folder

    @classmethod
    def of_compile_fx(cls) -> ModelFolder | None:
        return cls("compile") if wanted() else None


@contextlib.contextmanager
def stages_of(
    model: ModelFolder | None, graph_name: str, phase: str
) -> Iterator[PhaseFolder | None]:
    """Inside the block the FX stages of this graph are written to files."""
    if model is None:
        yield None
        return
    _phases[graph_name] = PhaseFolder(model, graph_name, phase)
    try:
        yield _phases[graph_name]
    finally:
        del _phases[graph_name]


def _on_stage(subject: fx_stage.Subject, stage: str, gm: GraphModule) -> None:
    phase = _phases.get(subject.graph)
    if phase is not None and stage != fx_stage.ALL_PASSES:  # already written
        phase.write_fx(stage, gm)


fx_stage.add_observer(_on_stage)


class PhaseFolder:
    """The folder of one ATen graph: forward, backward or compile_fx."""

    def __init__(self, model: ModelFolder, graph_name: str, phase: str) -> None:
        self.path = model.path / ("compile_fx" if model.kind == "compile" else phase)
        self.path.mkdir(exist_ok=True)
        self._stem = f"aot_{phase}"
        self._graph_name = graph_name
        self._numbers = itertools.count()
        self._table = logs.NodeTable([])  # of the tensor IR
        # The folder the engine writes to; collect() moves the files to their final names.
        self.engine_dir = str(self.path / ".engine")

    def write_fx(self, stage: str, gm: GraphModule) -> None:
        after = "" if stage == fx_stage.AOT_GRAPH else f"_after_{stage}"
        self._write(f"graph{after}", _readable(gm))

    def write_code(self, gm: GraphModule, backend: str, config: Config) -> None:
        script = output_code.script_of(gm, self._graph_name, backend, config)
        (self.path / "output_code.py").write_text(script, encoding="utf-8")
        logs.logger.debug("code of %s:\n%s", self._graph_name, script)

    def write_imported(self, text: str) -> None:
        self._write("graph_after_import", text)
        self._table = _table_of_text(text)

    def collect(self) -> None:
        """Collects the files that the engine has written since the last call."""
        written = pathlib.Path(self.engine_dir)
        if not written.exists():
            return
        imported = self._table
        for file in sorted(written.iterdir()):
            stage = _DUMPED.fullmatch(file.name)
            text = file.read_text(encoding="utf-8")
            if stage is not None:
                self._write(f"graph_after_{stage['stage']}", text)
                self._tell_change(f"pass({stage['stage']})", self._table, _table_of_text(text))
        self._tell_change("all passes", imported, self._table)
        for name, level in _LEVELS.items():
            if (written / name).exists():
                self._write(level, (written / name).read_text(encoding="utf-8"))
        shutil.rmtree(written)

    def write_plan(self, capture: int, text: str) -> None:
        self._write(f"plan_{capture}", text)

    def _write(self, what: str, text: str) -> None:
        file = self.path / f"{next(self._numbers):03}_{self._stem}_{what}.txt"
        file.write_text(text, encoding="utf-8")

    def _tell_change(self, what: str, before: logs.NodeTable, after: logs.NodeTable) -> None:
        title = f"After graph {what} optimization of {self._graph_name}"
        logs.logger.debug("%s", after.change(before, title))
        self._table = after


def _readable(gm: GraphModule) -> str:
    return gm.print_readable(print_output=False, include_stride=True, include_device=True)


def _table_of_text(text: str) -> logs.NodeTable:
    return logs.NodeTable([(m["names"], m["op"]) for m in _NODE.finditer(text)])
