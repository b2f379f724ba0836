"""Seconds of a first call with empty and with filled caches; a small Qwen3, any length.

Each row is a separate process. torch.compile caches programs in GEX_CACHE_DIR; cache_compile also
caches the results of Dynamo and AOTAutograd. The seconds include imports.
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

from first_call import make_model

ROWS = (
    ("aot_eager", ""),
    ("torch.compile", "nothing kept"),
    ("torch.compile", "program kept"),
    ("cache_compile", "nothing kept"),
    ("cache_compile", "all kept"),
)


def worker(entry: str, layers: int, folder: str) -> None:
    import torch

    model = make_model(layers, wide=False)
    ids = torch.randint(0, 4096, (1, 24))
    with torch.no_grad():
        want = model(input_ids=ids, use_cache=False).logits
        start, cpu = time.perf_counter(), time.process_time()
        if entry == "cache_compile":
            from gex.npugraph_ex.inference import cache_compile

            compiled = cache_compile(model.forward, cache_dir=folder)
        else:
            backend = "npugraph_ex" if entry == "torch.compile" else entry
            compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=True)
        got = compiled(input_ids=ids, use_cache=False).logits
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    error = float((got - want).abs().max() / want.abs().max())
    print("RESULT " + json.dumps({"wall": wall, "cpu": cpu, "error": error}))


def run_once(entry: str, layers: int, folder: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--worker", entry, str(layers), folder]
    environment = {**os.environ, "GEX_CACHE_DIR": os.path.join(folder, "programs")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1500)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line[7:])
    raise RuntimeError(done.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        entry, layers, folder = arguments.worker
        worker(entry, int(layers), folder)
        return 0
    print(f"{'':<16}{'':<14}{'wall s':>9}{'cpu s':>9}{'error':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for entry, state in ROWS:
            result = run_once(entry, arguments.layers, os.path.join(folder, entry))
            figures = f"{result['wall']:>9.2f}{result['cpu']:>9.2f}{result['error']:>9.1e}"
            print(f"{entry:<16}{state:<14}{figures}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
