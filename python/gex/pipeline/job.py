"""The job of compiling one ATen graph."""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch.fx import GraphModule

from gex.cache.saved_graph import GraphRecord
from gex.debug.debug_folder import ModelFolder, PhaseFolder
from gex.fx_stage.stream_assignment import StreamAssignment
from gex.importer.graph_import import ImportedGraph
from gex.options.table import Config
from gex.report import GraphReport

if TYPE_CHECKING:
    from gex.dynamo.frame_origin import Origin

CompiledGraph = Callable[[list[Any]], Sequence[Any]]

_numbers = itertools.count(1)


class Role(enum.Enum):
    """The role of a graph."""

    INFERENCE = enum.auto()
    FORWARD = enum.auto()  # of a training step
    BACKWARD = enum.auto()

    @property
    def phase(self) -> str:
        return "backward" if self is Role.BACKWARD else "forward"


@dataclass(frozen=True)
class FromDynamo:
    """What Dynamo knows about the compiled function."""

    origin: Origin | None = None
    names: tuple[str, ...] = ()  # the user's names of all inputs
    end: str | None = None  # why the graph ends before its function does


@dataclass(frozen=True)
class CompileRequest:
    """What the graphs of one function have in common."""

    backend: str
    config: Config
    dynamo: FromDynamo = FromDynamo()
    files: ModelFolder | None = None  # receives the texts of the graphs
    record: GraphRecord | None = None  # receives what another process needs to restore the graph


@dataclass
class CompileJob:
    """One graph: the request, then the results of each stage."""

    request: CompileRequest
    role: Role
    gm: GraphModule
    example_inputs: Sequence[Any]
    report: GraphReport = field(init=False)
    files: PhaseFolder | None = None
    streams: StreamAssignment = field(default_factory=StreamAssignment)
    imported: ImportedGraph | None = None
    static: list[tuple[int, str]] = field(default_factory=list)  # arguments that are bound once
    released: list[int] = field(default_factory=list)  # arguments that are freed at their last use
    runner: Any = None
    compiled: CompiledGraph | None = None  # set by the stage that ends the job

    def __post_init__(self) -> None:
        self.report = GraphReport(f"graph_{next(_numbers)}", self.backend)
        self.report.origin = self.request.dynamo.origin
        self.report.end = self.request.dynamo.end

    @property
    def name(self) -> str:
        return self.report.name

    @property
    def backend(self) -> str:
        return self.request.backend

    @property
    def config(self) -> Config:
        return self.request.config

    @property
    def input_names(self) -> tuple[str, ...]:
        """The user's names; a backward has other inputs."""
        return () if self.role is Role.BACKWARD else self.request.dynamo.names
