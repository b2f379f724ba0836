"""Records eager calls and replays them as one Program: NPUGraph, graph, make_graphed_callables."""

from gex.recording.callables import make_graphed_callables
from gex.recording.graph import NPUGraph, graph, is_current_stream_capturing
from gex.recording.task_groups import (
    graph_task_group_begin,
    graph_task_group_end,
    graph_task_update_begin,
    graph_task_update_end,
)
from gex.recording.updates import NpuGraphOpHandler, register_npu_graph_handler

__all__ = [
    "NPUGraph",
    "NpuGraphOpHandler",
    "graph",
    "graph_task_group_begin",
    "graph_task_group_end",
    "graph_task_update_begin",
    "graph_task_update_end",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "register_npu_graph_handler",
]
