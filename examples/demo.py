"""Greedy generation with a small random Qwen3: eager against torch.compile(backend="npugraph_ex").

Three prompts over a growing sequence: the same tokens, the same logits, one compilation.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from dataclasses import dataclass

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

import gex

PROMPTS = [
    "Write a four-line poem about spring.",
    "What is the capital of France?",
    "Write quicksort in Python.",
]


@dataclass
class Run:
    first_call: float
    seconds: float
    tokens: list[list[int]]
    logits: list[torch.Tensor]

    @property
    def rate(self) -> float:
        return sum(len(t) for t in self.tokens) / self.seconds


def make_model(layers: int) -> torch.nn.Module:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=4096,
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        initializer_range=0.1,
    )
    config._attn_implementation = "eager"
    return Qwen3ForCausalLM(config).eval()


def show_progress(label: str, done: int, total: int) -> None:
    width = 30
    filled = width * done // total
    sys.stderr.write(f"\r{label:<12} [{'#' * filled}{'.' * (width - filled)}] {done}/{total}")
    if done == total:
        sys.stderr.write("\n")
    sys.stderr.flush()


def generate(label: str, model: torch.nn.Module, prompts: list[torch.Tensor], steps: int) -> Run:
    tokens, logits = [], []
    first_call = seconds = 0.0
    with torch.no_grad():
        start = time.perf_counter()
        model(input_ids=prompts[0], use_cache=False)
        first_call = time.perf_counter() - start
        for number, prompt in enumerate(prompts):
            ids = prompt.clone()
            start = time.perf_counter()
            for step in range(steps):
                last = model(input_ids=ids, use_cache=False).logits[:, -1, :]
                logits.append(last[0].clone())
                ids = torch.cat([ids, last.argmax(-1, keepdim=True)], dim=1)
                if step % 8 == 7 or step == steps - 1:
                    show_progress(label, number * steps + step + 1, len(prompts) * steps)
            seconds += time.perf_counter() - start
            tokens.append(ids[0, prompt.shape[1] :].tolist())
    return Run(first_call, seconds, tokens, logits)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64, help="new tokens for each prompt")
    arguments = parser.parse_args()

    model = make_model(arguments.layers)
    prompts = [torch.tensor([[b % 4096 for b in text.encode()]]) for text in PROMPTS]
    eager = generate("eager", model, prompts, arguments.tokens)

    with gex.collect() as graphs:
        compiled = torch.compile(
            model,
            backend="npugraph_ex",
            fullgraph=True,
            dynamic=True,
            options={"capture_limit": 256},
        )
        fast = generate("npugraph_ex", compiled, prompts, arguments.tokens)

    same = sum(a == b for a, b in zip(eager.tokens, fast.tokens))
    worst = max(float((a - b).abs().max()) for a, b in zip(eager.logits, fast.logits))
    distinct = len({t for tokens in fast.tokens for t in tokens})
    counters = [g.runner.counters for g in graphs if g.runner is not None]
    calls = sum(len(g.calls) for g in graphs)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    rows = [
        ("", "eager", "npugraph_ex"),
        ("first call", f"{eager.first_call:.2f} s", f"{fast.first_call:.2f} s"),
        ("tokens/s", f"{eager.rate:.1f}", f"{fast.rate:.1f}"),
        ("speed-up", "1.00x", f"{fast.rate / eager.rate:.2f}x"),
        ("compiled graphs", "-", str(len(graphs))),
        ("captures", "-", str(sum(c["captures"] for c in counters))),
        ("calls through PyTorch", "-", str(calls)),
        ("arena", "-", f"{max(c['arena_bytes'] for c in counters) / 2**20:.1f} MiB"),
        ("peak memory of the process", "-", f"{peak:.0f} MiB"),
    ]
    print()
    for name, left, right in rows:
        print(f"{name:<28}{left:>14}{right:>14}")
    print(
        f"\nprompts with the same tokens: {same} of {len(prompts)}; "
        f"largest difference of a logit: {worst:.2e}; distinct tokens: {distinct}"
    )
    return 0 if same == len(prompts) else 1


if __name__ == "__main__":
    sys.exit(main())
