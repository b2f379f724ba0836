"""A made-up report model of any size, in the form that src/report writes."""

from __future__ import annotations

from typing import Any

_OPS = [
    ("layer_norm", "loop"),
    ("matmul", "contraction"),
    ("add", "loop"),
    ("attention", "contraction"),
    ("matmul", "contraction"),
    ("add", "loop"),
    ("layer_norm", "loop"),
    ("matmul", "contraction"),
    ("gelu", "loop"),
    ("matmul", "contraction"),
    ("mul", "loop"),
    ("add", "loop"),
]
_TYPE = "f32[8, 128, 768]"
_BYTES = 8 * 128 * 768 * 4


def _graph(blocks: int, slower: float) -> dict[str, Any]:
    values: list[list[Any]] = [["x", _TYPE, -1]]
    buffers = [{"name": "x", "kind": "input", "type": _TYPE, "bytes": _BYTES}]
    nodes: list[dict[str, Any]] = []
    units: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    events: list[list[int]] = []
    last, now = 0, 2000
    for block in range(blocks):
        before = last
        for k, (op, kind) in enumerate(_OPS):
            n, value = len(nodes), len(values)
            values.append([f"v{value}", _TYPE, n])
            buffers.append({"name": op, "kind": "temp", "type": _TYPE, "bytes": _BYTES})
            reads = [last, before] if op == "add" else [last]
            part = "attention" if k < 6 else "mlp"
            at = f"/encoder/layer.{block}/{part}/{op}_{k}"
            nodes.append({"op": op, "in": reads, "out": [value], "unit": n, "at": at})
            units.append({"kind": kind, "label": op, "nodes": [n], "steps": [n]})
            product = kind == "contraction"
            steps.append(
                {
                    "kind": "launch",
                    "name": op,
                    "unit": n,
                    "segment": 0,
                    "reads": reads,
                    "writes": [value],
                    "code": 0 if product else 1,
                    "flops": 1.2e9 if product else 4e6,
                    "read": 5.5e6,
                    "written": float(_BYTES),
                    "at": at,
                }
            )
            took = int((14e6 if product else 6e5) * slower * (1 + 0.03 * (n % 7)))
            events += [[n, worker, now + 900 * worker, now + took] for worker in range(2)]
            now += took + 3000
            last = value
    count = len(nodes)
    reason = "not fused with add: its result is reduced over an axis that the other one keeps"
    return {
        "name": "main",
        "target": "cpu",
        "generator": "llvm (test)",
        "values": values,
        "inputs": [0],
        "outputs": [last],
        "nodes": nodes,
        "units": units,
        "steps": steps,
        "segments": ["main"],
        "codes": [
            {"name": "matmul", "kernel": -1, "problem": "matmul f32 f32 f32", "prologues": []},
            {"name": "add", "kernel": 0, "prologues": []},
        ],
        "kernels": [{"loops": "kernel add() { }", "assembly": "vaddps"}],
        "buffers": buffers,
        "memory": {
            "total": 3 * _BYTES,
            "lower_bound": 3 * _BYTES,
            "without_reuse": count * _BYTES,
            "why": "",
            "strategy": "by_start",
            "positions": count,
            "rows": [
                [k + 1, k % 3 * _BYTES, _BYTES, k, min(count - 1, k + 2)] for k in range(count)
            ],
            "later": [],
            "outside": {"constant": 340_000_000, "input": _BYTES, "output": _BYTES},
            "position_of_step": list(range(count)),
        },
        "passes": [
            {
                "name": name,
                "changed": True,
                "count": 12,
                "before": 900 - 40 * k,
                "after": 860 - 40 * k,
                "seconds": 0.002,
            }
            for k, name in enumerate(["canonicalise", "fold", "cse", "dce", "expand"])
        ],
        "separate": [{"node": k, "other": k - 1, "reason": reason} for k in range(6, count, 12)],
        "remarks": [],
        "tuned": [],
        "counts": {"kernels": 2, "operators": count},
        "stages": [["passes", 0.1]],
        "guards": [],
        "sizes": {"s0": 8},
        "captures": [],
        "timeline": {"ns": now, "calls": [now, now + now // 20], "events": events},
    }


def model(blocks: int = 12, slower: float = 1.0, title: str = "synthetic") -> dict[str, Any]:
    """Twelve nodes for each block, each a launch of its own."""
    return {
        "format": "gex-report",
        "version": 1,
        "gex": "0.1.0",
        "title": title,
        "created": "2026-01-02T03:04:05Z",
        "machine": {
            "name": "a test's machine",
            "threads": 2,
            "gflops": 180.0,
            "bandwidth": 20.0,
            "cache_bandwidth": 120.0,
        },
        "first_call": [["passes", 0.3], ["code", 0.8], ["run", 0.3]],
        "extra": {},
        "graphs": [_graph(blocks, slower)],
    }


def on_a_gpu(shown: dict[str, Any]) -> dict[str, Any]:
    """The same on a GPU: matmuls of 16 bits on tensor cores, every other launch on stream 1."""
    graph = shown["graphs"][0]
    graph["target"], graph["generator"] = "cuda:0", "nvrtc (sm_90)"
    graph["device"] = {
        "name": "a test's GPU",
        "multiprocessors": 100,
        "gflops": 50_000.0,
        "tensor_gflops": 800_000.0,
        "bandwidth": 3000.0,
        "cache_bytes": 5e7,
    }
    graph["codes"][0]["tensor_cores"] = True
    events, now = [[-2, -1, 0, 3000]], 3000
    for number, step in enumerate(graph["steps"]):
        step["grid"] = 400 if step["code"] == 0 else 20
        took = 10_000 if step["code"] == 0 else 20_000
        events.append([number, number % 2, now, now + took])
        now += took - 500 * (number % 2)
    graph["timeline"] = {"ns": now + 9000, "calls": [now + 9000], "events": events}
    events.append([-3, -1, 3000, now + 9000])
    return shown
