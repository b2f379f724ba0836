"""Qwen3-0.6B's architecture on one GPU: tokens per second with a growing sequence and with a cache.

    python bench/cuda_models.py [--backends eager,npugraph_ex,inductor] [--jobs growing,decode]
                                [--layers 28] [--tokens 128] [--dtype float16] [--json FILE]

Random weights, untied, initializer_range 0.1, one prompt of 24 tokens. Each backend's first run is
timed separately; tokens are compared with those of eager mode and the distinct ones counted."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import qwen3
import torch
from transformers import AutoModelForCausalLM, StaticCache

PROMPT = 24


def make_model(layers: int, dtype: torch.dtype, vocabulary: int) -> Any:
    torch.manual_seed(0)
    config = qwen3.full(
        vocab_size=vocabulary,
        num_hidden_layers=layers,
        tie_word_embeddings=False,
        initializer_range=0.1,
    )
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return model.eval()


def now() -> float:
    torch.cuda.synchronize()
    return time.perf_counter()


def growing(model: Any, compiled: Callable[..., Any], tokens: int) -> tuple[list[int], float]:
    """Every step processes the whole sequence; nothing is cached. Returns the tokens and the
    seconds."""
    ids = torch.arange(PROMPT, device="cuda")[None] % 1000
    start = now()
    given = []
    for _ in range(tokens):
        logits = compiled(input_ids=ids, use_cache=False, logits_to_keep=1).logits
        following = logits[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, following], 1)
        given.append(following)
    return torch.cat(given, 1)[0].tolist(), now() - start


def decode(model: Any, compiled: Callable[..., Any], tokens: int) -> tuple[list[int], float]:
    """The prompt in eager mode, not timed, then one token per step with transformers' static
    cache."""
    ids = torch.arange(PROMPT, device="cuda")[None] % 1000
    cache = StaticCache(config=model.config, max_cache_len=PROMPT + tokens)
    position = torch.arange(PROMPT, device="cuda")
    logits = model(ids, past_key_values=cache, cache_position=position).logits
    following = logits[:, -1:].argmax(-1)
    given = [following]
    position = position[-1:] + 1
    start = now()
    for _ in range(tokens - 1):
        logits = compiled(following, past_key_values=cache, cache_position=position).logits
        following = logits[:, -1:].argmax(-1)
        position = position + 1
        given.append(following)
    return torch.cat(given, 1)[0].tolist(), now() - start


JOBS = {"growing": growing, "decode": decode}


def compile_with(backend: str, model: Any, dynamic: bool) -> Any:
    """`static`: npugraph_ex, with code for the sizes of each call."""
    if backend == "eager":
        return model
    options = {"static_kernel_compile": True} if backend == "static" else None
    name = "npugraph_ex" if backend == "static" else backend
    return torch.compile(model, backend=name, dynamic=dynamic, fullgraph=True, options=options)


def measure(model: Any, backend: str, job: str, tokens: int) -> dict[str, Any]:
    torch._dynamo.reset()
    run = JOBS[job]
    compiled = compile_with(backend, model, dynamic=job == "growing")
    times = []
    for _ in range(3):
        result, seconds = run(model, compiled, tokens)
        times.append(seconds)
    return {
        "backend": backend,
        "job": job,
        "first_s": round(times[0], 2),
        "tokens_per_s": round(tokens / min(times[1:]), 1),
        "distinct": len(set(result)),
        "tokens": result,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", default="eager,npugraph_ex")
    parser.add_argument("--jobs", default="growing,decode")
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--vocabulary", type=int, default=151936)
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    model = make_model(options.layers, getattr(torch, options.dtype), options.vocabulary)
    rows = []
    for job in options.jobs.split(","):
        expected: list[int] | None = None
        for backend in options.backends.split(","):
            row = measure(model, backend, job, options.tokens)
            got = row.pop("tokens")
            expected = got if expected is None else expected
            row["equal_tokens"] = sum(a == b for a, b in zip(got, expected))
            rows.append(row)
            print(row, flush=True)
            write_json(options.json, rows=rows)
            if backend in ("gex", "npugraph_ex", "static"):
                print(summary(), flush=True)


def write_json(path: str | None, **figures: Any) -> None:
    """After each row: a run that is stopped keeps what it has measured."""
    if path is None:
        return
    text = json.dumps({"device": torch.cuda.get_device_name(), **figures}, indent=1)
    with open(path, "w") as file:
        file.write(text)


def summary() -> str:
    """Describes the last graph."""
    from gex import report

    last = report.reports()[-1]
    if last.eager_reason is not None:
        return f"  ran through PyTorch: {last.eager_reason}"
    text = last.runner.text("program")
    launches = text.count("\n  launch ")
    library = text.count('algorithm "cublas"')
    counters = last.runner.counters
    return (
        f"  {launches} launches, {len(last.calls)} calls, "
        f"{library} library codes, "
        f"captures {counters['captures']}, {text.count('code ')} codes, seconds "
        + ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in last.times.items())
    )


if __name__ == "__main__":
    main()
