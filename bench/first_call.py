"""Seconds of a first call by the number of layers: a small Qwen3, each row in its own process.

`plain` rows are one size (static), `dynamic` rows any length, `kv` rows too, with the KV cache that
the model makes; `regions` means gex.regions(model), `restart` the second of two processes that
share GEX_CACHE_DIR.
Processor seconds are listed beside wall seconds: they are more stable on a shared machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

from results import add_option, record

ROWS = [
    *(("plain", layers) for layers in (4, 16, 64)),
    *(("dynamic", layers) for layers in (8, 28, 64)),
    ("kv", 28),
]
VARIANTS = {
    "plain": ["aot_eager", "gex"],
    "dynamic": ["aot_eager", "gex", "gex+regions"],
    "kv": ["gex", "gex+restart"],
}


def make_model(layers: int, wide: bool) -> Any:
    import qwen3
    import torch
    from transformers import Qwen3ForCausalLM

    torch.manual_seed(0)
    config = (qwen3.full if wide else qwen3.small)(
        vocab_size=4096,
        num_hidden_layers=layers,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        initializer_range=0.1,
    )
    return Qwen3ForCausalLM(config).eval()


def worker(kind: str, layers: int, variant: str, wide: bool) -> None:
    import torch

    backend, _, regions = variant.partition("+")
    model = make_model(layers, wide)
    ids = torch.randint(0, 4096, (1, 24))
    result: dict[str, Any] = {}
    with torch.no_grad():
        use_cache = kind == "kv"
        want = model(input_ids=ids, use_cache=use_cache).logits
        if regions == "regions":
            import gex

            gex.regions(model)
        compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=kind != "plain")
        start, cpu = time.perf_counter(), time.process_time()
        got = compiled(input_ids=ids, use_cache=use_cache).logits
        result["wall"] = time.perf_counter() - start
        result["cpu"] = time.process_time() - cpu
    result["error"] = float((got - want).abs().max() / want.abs().max())
    if backend == "gex":
        import gex

        (report,) = gex.reports()
        result["stages"] = report.times
    print("RESULT " + json.dumps(result))


def run_once(kind: str, layers: int, variant: str, wide: bool) -> dict[str, Any]:
    if not variant.endswith("+restart"):
        return run_worker(kind, layers, variant, wide, dict(os.environ))
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "GEX_CACHE_DIR": folder}
        run_worker(kind, layers, variant, wide, environment)
        return run_worker(kind, layers, variant, wide, environment)


def run_worker(
    kind: str, layers: int, variant: str, wide: bool, environment: dict[str, str]
) -> dict[str, Any]:
    command = [sys.executable, __file__, "--worker", kind, str(layers), variant]
    done = subprocess.run(
        command + ["--wide"] * wide, capture_output=True, text=True, timeout=1500, env=environment
    )
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line[7:])
    return {"failed": (done.stderr.strip().splitlines() or ["no output"])[-1][:160]}


def line_of(result: dict[str, Any]) -> str:
    if "failed" in result:
        return f"failed: {result['failed']}"
    own = {k: v for k, v in result.get("stages", {}).items() if k not in ("dynamo", "aot")}
    text = f"{result['wall']:>9.2f}{result['cpu']:>9.2f}{result['error']:>9.1e}"
    if own:
        parts = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in own.items())
        text += f"{sum(own.values()):>9.2f}  ({parts})"
    return text


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--layers", help="only these, by comma")
    parser.add_argument("--kinds", default="plain,dynamic,kv")
    parser.add_argument("--variants", default="aot_eager,gex,gex+regions,gex+restart")
    parser.add_argument("--wide", action="store_true", help="layers of the 0.6B architecture")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    add_option(parser)
    arguments = parser.parse_args()
    if arguments.worker:
        kind, layers, variant = arguments.worker
        worker(kind, int(layers), variant, arguments.wide)
        return 0
    only = [int(n) for n in arguments.layers.split(",")] if arguments.layers else None
    columns = "".join(f"{name:>9}" for name in ("wall s", "cpu s", "error", "gex s"))
    print(f"{'kind':<9}{'layers':>6}  {'variant':<12}{columns}")
    rows: dict[str, dict[str, float]] = {}
    for kind in arguments.kinds.split(","):
        for layers in only or [n for k, n in ROWS if k == kind]:
            for variant in VARIANTS[kind]:
                if variant in arguments.variants.split(","):
                    result = run_once(kind, layers, variant, arguments.wide)
                    print(f"{kind:<9}{layers:>6}  {variant:<12}{line_of(result)}", flush=True)
                    if "cpu" in result:
                        rows.setdefault(f"{kind} {layers}", {})[variant] = result["cpu"]
    if arguments.results:
        record(arguments.results, "first_calls", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
