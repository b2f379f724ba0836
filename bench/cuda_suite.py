"""Vision, language and training jobs on one GPU: milliseconds of a call, ours beside PyTorch's own.

    python bench/cuda_suite.py [--jobs REGEX] [--workers 4]
                               [--backends eager,npugraph_ex,inductor,reduce-overhead]
                               [--seconds 400] [--json FILE]

Each job runs in a process of its own, backend by backend. Several processes compile at the same
time; only one measures. A result is the median of the calls within 1.5 seconds. `distance` is
|out - f32| / |out| of a 16-bit job: ours should be that of eager mode. Jobs that don't begin within
--seconds are named. Weights are random: speed and rounding only.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import fcntl
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

Job = tuple[nn.Module, dict[str, torch.Tensor]]


def resnet50(batch: int) -> Job:
    from torchvision.models import resnet50 as make  # type: ignore[import-not-found,unused-ignore]

    return make(weights=None), {"x": torch.randn(batch, 3, 224, 224)}


def bert(batch: int) -> Job:
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(initializer_range=0.1))
    return model, {"input_ids": torch.randint(0, 30000, (batch, 128))}


def vit(batch: int) -> Job:
    from transformers import ViTConfig, ViTModel

    return ViTModel(ViTConfig()), {"pixel_values": torch.randn(batch, 3, 224, 224)}


def gpt2(batch: int) -> Job:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(use_cache=False))
    return model, {"input_ids": torch.randint(0, 50000, (batch, 128))}


def qwen3(batch: int) -> Job:
    import qwen3 as configurations
    from transformers import AutoModelForCausalLM

    config = configurations.full(tie_word_embeddings=False, initializer_range=0.1, use_cache=False)
    model = AutoModelForCausalLM.from_config(config)
    return model, {"input_ids": torch.randint(0, 150000, (batch, 128))}


def mlp() -> Job:
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 10))
    return model, {"input": torch.randn(32, 128)}


def small_gpt() -> Job:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=4, n_embd=256, n_head=4, vocab_size=1000, use_cache=False,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    return GPT2LMHeadModel(config), {"input_ids": torch.randint(0, 1000, (8, 64))}


def resnet18() -> Job:
    from torchvision.models import resnet18 as make  # type: ignore[import-not-found,unused-ignore]

    return make(weights=None), {"x": torch.randn(16, 3, 224, 224)}


INFERENCE: dict[str, Callable[[int], Job]] = {
    "resnet50": resnet50, "bert": bert, "vit": vit, "gpt2": gpt2, "qwen3": qwen3
}  # fmt: skip
TRAINING: dict[str, Callable[[], Job]] = {
    "mlp": mlp, "small_gpt": small_gpt, "resnet18": resnet18
}  # fmt: skip
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
JOBS = [
    f"{name}_b{batch}_{dtype}" for name in INFERENCE for batch in (1, 32) for dtype in DTYPES
] + [f"train_{name}" for name in TRAINING]


def result_of(output: Any) -> torch.Tensor:
    if isinstance(output, torch.Tensor):
        return output
    named = getattr(output, "logits", None)
    return named if named is not None else output[0]


def distance(output: torch.Tensor, exact: torch.Tensor) -> float:
    return float((output.float() - exact).norm() / exact.norm())


def compiled_by(backend: str, module: Any) -> Callable[..., Any]:
    if backend == "eager":
        return module  # type: ignore[no-any-return]
    if backend in ("reduce-overhead", "max-autotune"):
        return torch.compile(module, mode=backend)
    return torch.compile(module, backend=backend)


def median_ms(run: Callable[[], object], lock: Path) -> float:
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for _ in range(3):
            run()
        torch.cuda.synchronize()
        times = []
        begin = time.perf_counter()
        while len(times) < 5 or time.perf_counter() - begin < 1.5:
            start = time.perf_counter()
            run()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def inference_row(job: str, backend: str, lock: Path) -> dict[str, Any]:
    name, batch, dtype = job.split("_")
    torch.manual_seed(0)
    model, inputs = INFERENCE[name](int(batch[1:]))
    model = model.cuda().eval()
    inputs = {key: value.cuda() for key, value in inputs.items()}
    with torch.no_grad():
        exact = result_of(model(**inputs)).float()
        model = model.to(DTYPES[dtype])
        inputs = {
            key: value.to(DTYPES[dtype]) if value.is_floating_point() else value
            for key, value in inputs.items()
        }
        run = compiled_by(backend, model)
        begin = time.perf_counter()
        output = result_of(run(**inputs))
        torch.cuda.synchronize()
        first = time.perf_counter() - begin
        row = {"distance": round(distance(output, exact), 5), "first_s": round(first, 1)}
        row["ms"] = round(median_ms(lambda: run(**inputs), lock), 4)
    return row


def training_row(job: str, backend: str, lock: Path) -> dict[str, Any]:
    torch.manual_seed(0)
    model, inputs = TRAINING[job.removeprefix("train_")]()
    model = model.cuda().train()
    inputs = {key: value.cuda() for key, value in inputs.items()}
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def loss_of(**values: torch.Tensor) -> torch.Tensor:
        logits = result_of(model(**values)).float()
        flat = logits.reshape(-1, logits.shape[-1])
        return nn.functional.cross_entropy(flat, torch.zeros_like(flat[:, 0], dtype=torch.long))

    step_loss = compiled_by(backend, loss_of)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = step_loss(**inputs)
        loss.backward()
        optimizer.step()
        return loss

    begin = time.perf_counter()
    losses = [step().item() for _ in range(3)]
    first = time.perf_counter() - begin
    torch.cuda.reset_peak_memory_stats()
    ms = median_ms(step, lock)
    peak = torch.cuda.max_memory_allocated() / 2**20
    return {
        "ms": round(ms, 4), "first_s": round(first, 1), "loss": losses[-1], "peak_mib": round(peak)
    }  # fmt: skip


def worker(job: str, backends: list[str], lock: Path) -> None:
    """Prints a row for each backend."""
    warnings.simplefilter("ignore")
    for backend in backends:
        torch._dynamo.reset()
        measure = training_row if job.startswith("train_") else inference_row
        try:
            row = measure(job, backend, lock)
        except Exception as error:  # a peer that fails must not end the others
            row = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
        if backend in ("gex", "npugraph_ex") and "ms" in row:
            from gex import report

            last = report.reports()[-1]
            text = "" if last.eager_reason else last.runner.text("program")
            row["launches"] = len(re.findall(r"^  launch ", text, re.MULTILINE))
            row["calls"] = len(last.calls)
            row["eager_reason"] = last.eager_reason
        print(json.dumps({"job": job, "backend": backend, **row}), flush=True)
        torch.cuda.empty_cache()


def line_of(row: dict[str, Any]) -> str:
    rest = {key: value for key, value in row.items() if key not in ("job", "backend")}
    values = "  ".join(f"{key} {value}" for key, value in rest.items() if value is not None)
    return f"{row['job']:18} {row['backend']:16} {values}"


def run_job(job: str, options: argparse.Namespace, lock: str, end: float) -> list[dict[str, Any]]:
    """In a process of its own; prints the rows."""
    if time.monotonic() > end:
        print(f"{job:18} left out: no time", flush=True)
        return []
    command = [sys.executable, __file__, "--worker", job, "--lock", lock]
    done = subprocess.run(
        [*command, "--backends", options.backends], capture_output=True, text=True
    )
    rows = [json.loads(text) for text in done.stdout.splitlines() if text.startswith("{")]
    if done.returncode != 0:
        rows.append({"job": job, "backend": "", "error": f"exit status {done.returncode}"})
        print(done.stderr[-600:], flush=True)
    for row in rows:
        print(line_of(row), flush=True)
    return rows


def run_all(options: argparse.Namespace) -> list[dict[str, Any]]:
    end = time.monotonic() + options.seconds
    jobs = [job for job in JOBS if re.search(options.jobs, job)]
    with (
        tempfile.NamedTemporaryFile() as lock,
        concurrent.futures.ThreadPoolExecutor(options.workers) as pool,
    ):
        found = pool.map(lambda job: run_job(job, options, lock.name, end), jobs)
        return [row for rows in found for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", default="")
    parser.add_argument("--backends", default="eager,npugraph_ex,inductor,reduce-overhead")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=400)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--lock", help=argparse.SUPPRESS)
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.worker:
        worker(options.worker, options.backends.split(","), Path(options.lock))
        return
    rows = run_all(options)
    if options.json:
        Path(options.json).write_text(
            json.dumps({"device": torch.cuda.get_device_name(), "rows": rows}, indent=1)
        )


if __name__ == "__main__":
    main()
