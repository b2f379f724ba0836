"""The logger `npugraph_ex`: its line format, its levels, and what a compile logs at DEBUG.

    [DEBUG] NPUGRAPH_EX(pid,exe):2026-01-31 12:00:00 123.456 [file:line]tid text

Errors go to standard output by default; `logging.getLogger("npugraph_ex").setLevel(...)` enables
more, and TORCH_COMPILE_DEBUG=1 writes everything to a file of the debug folder.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from torch.fx import GraphModule

from gex import fx_stage
from gex.debug.graph_nodes import target_name

EVENT = 35

logger = logging.getLogger("npugraph_ex")


class LineFormat(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        date = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        microseconds = int(record.created * 1_000_000) % 1_000_000
        fraction = f"{microseconds // 1000:03}.{microseconds % 1000:03}"
        program = os.path.basename(sys.executable or "python")
        place = f"{record.filename}:{record.lineno}"
        text = (
            f"[{record.levelname}] NPUGRAPH_EX({record.process},{program}):{date} {fraction} "
            f"[{place}]{record.thread} {record.getMessage()}"
        )
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class _StandardOutput(logging.StreamHandler):
    """Writes to the current sys.stdout."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stdout


def _set_up() -> None:
    logging.addLevelName(EVENT, "EVENT")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.ERROR)
    if not logger.handlers:
        handler = _StandardOutput()
        handler.setFormatter(LineFormat())
        logger.addHandler(handler)
    logger.propagate = False


_set_up()


def write_to(path: str) -> None:
    """Writes everything to this file, including DEBUG; other handlers keep their levels."""
    for handler in logger.handlers:
        if handler.level == logging.NOTSET:
            handler.setLevel(logger.level)
    file = logging.FileHandler(path, encoding="utf-8")
    file.setFormatter(LineFormat())
    file.setLevel(logging.DEBUG)
    logger.addHandler(file)
    logger.setLevel(logging.DEBUG)


# --- what passes changed --------------------------------------------------------------------


class NodeTable:
    """The nodes of a graph at one point: names, and number of calls of each target."""

    def __init__(self, nodes: Sequence[tuple[str, str]]) -> None:
        self.names = [name for name, _ in nodes]
        self.targets = Counter(target for _, target in nodes)

    @classmethod
    def of_fx(cls, gm: GraphModule) -> NodeTable:
        return cls([(node.name, target_name(node)) for node in gm.graph.nodes])

    def change(self, before: NodeTable, title: str) -> str:
        """Describes the changes since `before`, as text and a table."""
        removed = [name for name in before.names if name not in set(self.names)]
        added = [name for name in self.names if name not in set(before.names)]
        lines = [
            f"{title}: {len(before.names)} nodes before, {len(self.names)} after",
            f"  removed: {', '.join(removed) or 'none'}",
            f"  added: {', '.join(added) or 'none'}",
        ]
        for target in sorted(before.targets.keys() | self.targets.keys()):
            was, now = before.targets[target], self.targets[target]
            if was != now:
                lines.append(f"  {target}: {was} -> {now}")
        return "\n".join(lines)


# By graph name: the first and the last seen table.
_first_tables: dict[str, NodeTable] = {}
_tables: dict[str, NodeTable] = {}


def _on_stage(subject: fx_stage.Subject, stage: str, gm: GraphModule) -> None:
    if not logger.isEnabledFor(logging.DEBUG):
        return
    table = NodeTable.of_fx(gm)
    before = (_first_tables if stage == fx_stage.ALL_PASSES else _tables).get(subject.graph)
    _tables[subject.graph] = table
    if stage == fx_stage.AOT_GRAPH:
        _first_tables[subject.graph] = table
    elif before is not None:
        title = f"After fx graph pass({stage}) optimization of {subject.graph} {subject.phase}"
        logger.debug("%s", table.change(before, title))


fx_stage.add_observer(_on_stage)
