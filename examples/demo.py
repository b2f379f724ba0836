"""Greedy generation with Qwen3: eager against torch.compile(backend="npugraph_ex").

Three prompts over a growing sequence: the same tokens, the same logits, one compilation. Without
options a small model with random weights; --full has the architecture of Qwen3-0.6B, --model loads
a checkpoint. In 16 bits the order of additions decides near ties, so tokens may differ: there both
runs are compared with the same model in f32, and ours must be as close to it as eager's.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3Config

import gex

PROMPTS = [
    "Write a four-line poem about spring.",
    "What is the capital of France?",
    "Write quicksort in Python.",
]
# Distance of our 16-bit logits from f32's, at most this many times eager's distance.
MOST_DISTANCE = 1.1
CHAT_PROMPTS = [
    "请写一首关于春天的五言绝句",
    "What is the capital of France?",
    "用Python写一个快速排序算法",
]


@dataclass
class Job:
    """A model, its prompts as tokens, and a function from tokens to text (None: random weights)."""

    model: torch.nn.Module
    prompts: list[torch.Tensor]
    last_token: int | None = None
    decode: Callable[[list[int]], str] | None = None


@dataclass
class Run:
    first_call: float
    seconds: float
    tokens: list[list[int]]
    logits: list[list[torch.Tensor]]  # of each step, by prompt

    @property
    def rate(self) -> float:
        return sum(len(steps) for steps in self.logits) / self.seconds


def random_model(config: Qwen3Config, dtype: torch.dtype) -> Job:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="eager")
    return Job(model.eval(), [torch.tensor([list(text.encode())]) for text in PROMPTS])


def small_model(layers: int) -> Job:
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
    return random_model(config, torch.float32)


def full_model(layers: int) -> Job:
    """Qwen3-0.6B in bfloat16, with an untied output matrix, which random weights need."""
    config = Qwen3Config(
        vocab_size=151936,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=layers,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=40960,
        rope_theta=1000000.0,
        tie_word_embeddings=False,
        initializer_range=0.1,
    )
    return random_model(config, torch.bfloat16)


def checkpoint(folder: str) -> Job:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", attn_implementation="eager")
    prompts = []
    for text in CHAT_PROMPTS:
        if tokenizer.chat_template:
            text = tokenizer.apply_chat_template(
                [{"role": "user", "content": text}],
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=False,
            )
        prompts.append(torch.tensor([tokenizer.encode(text)]))

    def decode(tokens: list[int]) -> str:
        return tokenizer.decode(tokens, skip_special_tokens=True)

    return Job(model.eval(), prompts, tokenizer.eos_token_id, decode)


def show_progress(label: str, done: int, total: int) -> None:
    """A bar on a terminal, else a line."""
    if not sys.stderr.isatty():
        print(f"{label}: {done} of {total} tokens", file=sys.stderr, flush=True)
        return
    width = 30
    filled = width * done // total
    sys.stderr.write(f"\r{label:<12} [{'#' * filled}{'.' * (width - filled)}] {done}/{total}")
    if done == total:
        sys.stderr.write("\n")
    sys.stderr.flush()


def generate(label: str, model: torch.nn.Module, job: Job, steps: int) -> Run:
    run = Run(0.0, 0.0, [], [])
    on_terminal = sys.stderr.isatty()
    print(f"{label:<12} first call", end="\r" if on_terminal else "\n", file=sys.stderr, flush=True)
    with torch.no_grad():
        start = time.perf_counter()
        model(input_ids=job.prompts[0], use_cache=False)
        run.first_call = time.perf_counter() - start
        for number, prompt in enumerate(job.prompts):
            ids, logits = prompt.clone(), []
            start = time.perf_counter()
            for step in range(steps):
                last = model(input_ids=ids, use_cache=False).logits[:, -1, :]
                logits.append(last[0].clone())
                token = last.argmax(-1, keepdim=True)
                if token.item() == job.last_token:
                    break
                ids = torch.cat([ids, token], dim=1)
                if on_terminal and step % 8 == 7:
                    show_progress(label, number * steps + step + 1, len(job.prompts) * steps)
            run.seconds += time.perf_counter() - start
            show_progress(label, (number + 1) * steps, len(job.prompts) * steps)
            run.tokens.append(ids[0, prompt.shape[1] :].tolist())
            run.logits.append(logits)
    return run


def largest_difference(eager: Run, fast: Run) -> float:
    """Of the logits, over the steps in which both models saw the same tokens."""
    worst = 0.0
    for number, tokens in enumerate(eager.tokens):
        for step, (a, b) in enumerate(zip(eager.logits[number], fast.logits[number])):
            if tokens[:step] != fast.tokens[number][:step]:
                break
            worst = max(worst, float((a.float() - b.float()).abs().max()))
    return worst


def distance_from_f32(model: torch.nn.Module, job: Job, run: Run) -> float:
    """Root mean square of (logits - those of `model`, in f32), relative to the latter's."""
    error = scale = 0.0
    for prompt, tokens, logits in zip(job.prompts, run.tokens, run.logits):
        ids = torch.cat([prompt, torch.tensor([tokens], dtype=torch.int64)], dim=1)
        with torch.no_grad():
            all_logits = model(input_ids=ids, use_cache=False).logits[0]
        want = all_logits[prompt.shape[1] - 1 :][: len(logits)]
        error += float((torch.stack(logits).float() - want).square().sum())
        scale += float(want.square().sum())
    return (error / scale) ** 0.5


def table(eager: Run, fast: Run, graphs: list[gex.GraphReport]) -> list[tuple[str, str, str]]:
    counters = [g.runner.counters for g in graphs if g.runner is not None]
    calls = sum(len(g.calls) for g in graphs)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--full", action="store_true", help="Qwen3-0.6B's size, random weights")
    which.add_argument("--model", metavar="FOLDER", help="a checkpoint of a causal language model")
    parser.add_argument("--layers", type=int, help="8 layers, with --full 28")
    parser.add_argument("--tokens", type=int, help="new tokens for each prompt: 64, --full 8")
    arguments = parser.parse_args()
    if arguments.model is not None and arguments.layers is not None:
        parser.error("--layers is given by the checkpoint of --model")
    if arguments.model is not None and not (Path(arguments.model) / "config.json").is_file():
        parser.error(f"--model: {arguments.model} is not a folder with a checkpoint (config.json)")
    if any(number is not None and number < 1 for number in (arguments.layers, arguments.tokens)):
        parser.error("--layers and --tokens are at least 1")

    if arguments.model is not None:
        job = checkpoint(arguments.model)
    elif arguments.full:
        job = full_model(arguments.layers or 28)
    else:
        job = small_model(arguments.layers or 8)
    steps = arguments.tokens or (8 if arguments.full else 64)
    eager = generate("eager", job.model, job, steps)

    gex.regions(job.model)  # its layers are equal, so they are traced once
    with gex.collect() as graphs:
        compiled = torch.compile(
            job.model,
            backend="npugraph_ex",
            fullgraph=True,
            dynamic=True,
            options={"capture_limit": 256},
        )
        fast = generate("npugraph_ex", compiled, job, steps)

    print()
    for name, left, right in table(eager, fast, graphs):
        print(f"{name:<28}{left:>14}{right:>14}")
    same = sum(a == b for a, b in zip(eager.tokens, fast.tokens))
    distinct = len({t for tokens in fast.tokens for t in tokens})
    worst = largest_difference(eager, fast)
    print(
        f"\nprompts with the same tokens: {same} of {len(job.prompts)}; "
        f"largest difference of a logit: {worst:.2e}; distinct tokens: {distinct}"
    )
    if job.decode is not None:
        for prompt, tokens in zip(CHAT_PROMPTS, fast.tokens):
            print(f"\nQ: {prompt}\nA: {job.decode(tokens)}")
    if next(job.model.parameters()).dtype.itemsize >= 4:
        return 0 if same == len(job.prompts) else 1
    in_f32 = job.model.float()
    ours, theirs = (distance_from_f32(in_f32, job, run) for run in (fast, eager))
    print(f"distance of the logits from those in f32: eager {theirs:.2e}, npugraph_ex {ours:.2e}")
    return 0 if ours <= MOST_DISTANCE * theirs else 1


if __name__ == "__main__":
    sys.exit(main())
