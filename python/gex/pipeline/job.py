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
    """What a graph is for."""

    INFERENCE = enum.auto()
    FORWARD = enum.auto()  # of a training step
    BACKWARD = enum.auto()

    @property
    def phase(self) -> str:
        return "backward" if self is Role.BACKWARD else "forward"


@dataclass(frozen=True)
class FromDynamo:
    """What Dynamo says about the function that is compiled."""

    origin: Origin | None = None
    names: tuple[str, ...] = ()  # of all inputs, as the user's code spells them
    end: str | None = None  # why the graph ends where its function goes on


@dataclass(frozen=True)
class CompileRequest:
    """What the graphs of one function have in common."""

    backend: str
    config: Config
    dynamo: FromDynamo = FromDynamo()
    files: ModelFolder | None = None  # gets the texts of the graphs
    record: GraphRecord | None = None  # gets what another process needs to have the graph again


@dataclass
class CompileJob:
    """One graph: what is asked for, then what each stage has found out or made."""

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
        """As the user's code spells them; a backward has inputs of its own."""
        return () if self.role is Role.BACKWARD else self.request.dynamo.names
