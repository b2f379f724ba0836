"""Cost of a call compared with a no-op backend: fixed, per input, per output.

The models do almost no arithmetic. Each is compiled with a backend that only returns precomputed
tensors through AOTAutograd (the cost of PyTorch itself) and with npugraph_ex, with and without
frozen_parameter. Rounds of calls are interleaved; the fastest call of each counts.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from results import add_option, record
from torch import nn
from torch._dynamo.backends.common import aot_autograd

CALLS_IN_A_ROUND = 20
WIDTH = 4


class ManyParameters(nn.Module):
    """They share one block of memory, so that reading their contents costs almost nothing."""

    def __init__(self, count: int) -> None:
        super().__init__()
        memory = torch.ones(count, WIDTH)
        self.scales = nn.ParameterList(nn.Parameter(row) for row in memory)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for scale in self.scales:
            x = x * scale
        return x


class ManyOutputs(nn.Module):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [x + k for k in range(1, self.count + 1)]


def hands_out_ready_tensors(
    gm: torch.fx.GraphModule, _inputs: Sequence[Any]
) -> Callable[[list[Any]], list[torch.Tensor]]:
    output = next(node for node in gm.graph.nodes if node.op == "output")
    shapes = [tuple(node.meta["val"].shape) for node in output.args[0]]
    ready: list[torch.Tensor] = []

    def call(arguments: list[Any]) -> list[torch.Tensor]:
        if not ready:  # tensors made while tracing would be fake
            ready.extend(torch.zeros(shape) for shape in shapes)
        return ready

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


NO_OP = aot_autograd(
    fw_compiler=hands_out_ready_tensors, inference_compiler=hands_out_ready_tensors
)
BACKENDS: dict[str, dict[str, Any]] = {
    "no-op": {"backend": NO_OP},
    "gex": {"backend": "npugraph_ex"},
    "frozen": {"backend": "npugraph_ex", "options": {"frozen_parameter": True}},
}


def measure(kind: type[nn.Module], count: int, rounds: int) -> dict[str, float]:
    """Microseconds of one call for each backend."""
    x = torch.ones(WIDTH)
    best = dict.fromkeys(BACKENDS, float("inf"))
    with torch.no_grad():
        # A copy of forward's code for each: Dynamo would try the guards of the others first.
        calls = {}
        for name, keywords in BACKENDS.items():
            own = type(kind.__name__, (kind,), {"forward": copy_function(kind.forward)})
            calls[name] = torch.compile(own(count), fullgraph=True, **keywords)
            for _ in range(5):
                calls[name](x)
        for _ in range(rounds):
            for name, call in calls.items():
                for _ in range(CALLS_IN_A_ROUND):
                    start = time.perf_counter()
                    call(x)
                    best[name] = min(best[name], 1e6 * (time.perf_counter() - start))
    torch._dynamo.reset()
    return best


def copy_function(function: Any) -> Any:
    return type(function)(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parameters", default="10,100,1000")
    parser.add_argument("--outputs", default="1,11,101")
    parser.add_argument("--rounds", type=int, default=200)
    add_option(parser)
    arguments = parser.parse_args()
    torch._dynamo.config.cache_size_limit = 64

    print(f"{'':<18}{'no-op µs':>10}{'gex over':>10}{'frozen over':>13}")
    over: dict[str, list[tuple[int, float]]] = {}
    rows: dict[str, dict[str, float]] = {}
    for count in (int(n) for n in arguments.parameters.split(",")):
        times = measure(ManyParameters, count, arguments.rounds)
        rows[f"{count} parameters"] = show(f"{count} parameters", count, times, over)
    base = over["gex"][0][1]
    print(f"each tensor input: {1e3 * slope(over['gex']):.1f} ns; ", end="")
    print(f"frozen parameter: {1e3 * slope(over['frozen']):.1f} ns")
    base -= over["gex"][0][0] * slope(over["gex"])
    over = {}
    for count in (int(n) for n in arguments.outputs.split(",")):
        times = measure(ManyOutputs, count, arguments.rounds)
        rows[f"{count} outputs"] = show(f"{count} outputs", count, times, over)
    print(f"each output: {slope(over['gex']):.2f} µs; the call itself: {base:.2f} µs")
    if arguments.results:
        record(arguments.results, "call_cost", rows)
    return 0


def show(
    label: str, count: int, times: dict[str, float], over: dict[str, list[tuple[int, float]]]
) -> dict[str, float]:
    for name in ("gex", "frozen"):
        over.setdefault(name, []).append((count, times[name] - times["no-op"]))
    print(
        f"{label:<18}{times['no-op']:>10.1f}{over['gex'][-1][1]:>10.2f}{over['frozen'][-1][1]:>13.2f}",
        flush=True,
    )
    gex, frozen = over["gex"][-1][1], over["frozen"][-1][1]
    return {"npugraph_ex": gex, "frozen_parameter": frozen, "no-op itself": times["no-op"]}


def slope(points: list[tuple[int, float]]) -> float:
    (x0, y0), (x1, y1) = points[0], points[-1]
    return (y1 - y0) / (x1 - x0) if x1 != x0 else 0.0


if __name__ == "__main__":
    sys.exit(main())
