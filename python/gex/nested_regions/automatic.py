"""Automatic regions: for models that repeat a block many times, while they are compiled.

Only if nothing but the time of the first call can change: without gradients, and for a backend with
the option `regions`. Models are not modified: only Dynamo knows of the regions, and its guards are
the same as without them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from gex.compat.dynamo_frame_hook import TracedFrame
from gex.nested_regions.regions import regions_of_trace

MANY = 8  # equal blocks; tracing fewer takes about as long as tracing a region
OPTION = "regions"


@contextlib.contextmanager
def regions_while_traced(frame: TracedFrame) -> Iterator[None]:
    """Context around Dynamo's trace of a frame for a backend with the option `regions`."""
    with contextlib.ExitStack() as made:
        if not torch.is_grad_enabled() and frame.request().options.get(OPTION, True):
            for module in frame.modules():
                made.enter_context(regions_of_trace(module, MANY))
        yield
