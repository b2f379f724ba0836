"""Regions without being asked: of models that repeat a block many times, while they are compiled.

Only where nothing but the time of the first call can change: without gradients, and by a backend
that takes option `regions`. Models stay as they are: Dynamo alone is told, and guards are those
that it has without regions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from gex.compat.dynamo_frame_hook import TracedFrame
from gex.nested_regions.regions import regions_of_trace

MANY = 8  # blocks of a kind: fewer are traced in about the time that a region takes
OPTION = "regions"


@contextlib.contextmanager
def regions_while_traced(frame: TracedFrame) -> Iterator[None]:
    """Around Dynamo's trace of a frame for a backend with option `regions`."""
    with contextlib.ExitStack() as made:
        if not torch.is_grad_enabled() and frame.request().options.get(OPTION, True):
            for module in frame.modules():
                made.enter_context(regions_of_trace(module, MANY))
        yield
