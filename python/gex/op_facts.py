"""Facts about ATen ops from the op definitions, besides their conversion to nodes."""

from __future__ import annotations

import functools
from typing import Any

from gex._gex import AtenFacts, aten_facts


def facts_of(target: Any) -> AtenFacts:
    """Facts of an overload; the defaults for any other callable."""
    packet = getattr(target, "overloadpacket", None)
    return aten_facts("") if packet is None else _facts_of_packet(packet)


@functools.cache
def _facts_of_packet(packet: Any) -> AtenFacts:
    return aten_facts(str(packet))
