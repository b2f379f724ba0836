"""PyTorch's logs (TORCH_LOGS) and structured traces (TORCH_TRACE, for tlparse)."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

from torch._logging import _internal, getArtifactLogger, trace_structured

LOG = "gex"

# What TORCH_LOGS may name: what is logged, and whether "+gex" includes it.
ARTIFACTS = {
    "gex.fusion": ("gex: which nodes became one launch, and why others did not", True),
    "gex.passes": ("gex: what each pass changed", True),
    "gex.graph": ("gex: the graph after the passes", False),
    "gex.kernels": ("gex: the loops of each kernel", False),
    "gex.program": ("gex: the steps that a call replays", False),
}


@functools.cache
def register() -> None:
    """Makes the names known to TORCH_LOGS and torch._logging.set_logs."""
    _internal.register_log(LOG, LOG)
    for name, (description, with_debug) in ARTIFACTS.items():
        _internal.register_artifact(name, description, visible=True, off_by_default=not with_debug)


@functools.cache
def logger_of(artifact: str) -> logging.Logger:
    register()
    return getArtifactLogger(LOG, artifact)


def is_tracing() -> bool:
    """Whether structured traces are written."""
    return bool(_internal.trace_log.handlers)


def trace_text(name: str, text: Callable[[], str]) -> None:
    """Adds a text to the structured trace of the function that is being compiled, if any."""
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": name, "encoding": "string"},
        payload_fn=text,
        expect_trace_id=False,
    )
