"""Qwen3-0.6B with random weights beside llama.cpp: weights of 16, 8 and 4 bits.

python bench/llama.py [--threads N] [--layers N] [--seconds S]

One token, and a prompt of 32. Needs the packages `llama-cpp-python` (built on this machine) and
`gguf`. Both sides compute the same model without a cache of earlier tokens and the logits of all
positions; calls alternate. The weights of a GGUF file are rounded from those of the torch model:
BF16 against bf16, Q8_0 against int8 with a scale for each output, Q4_0 against int4 with a scale
for each 32 inputs. `distance` is that of the logits of both sides from each other, relative to
their size: with bf16 it shows that the two models are the same, with fewer bits it has the errors
of both ways of rounding.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import qwen3
import torch
import weight_only
from torch import Tensor, nn

NEEDED = ("llama_cpp", "gguf")
# Ours, and what llama.cpp calls it.
KINDS = {"bf16": "BF16", "int8": "Q8_0", "int4": "Q4_0"}
PROMPT = 32


def model_of(layers: int) -> nn.Module:
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    config = qwen3.full(
        num_hidden_layers=layers, tie_word_embeddings=False, attn_implementation="eager"
    )
    return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()


# --- the GGUF file ----------------------------------------------------------------------------


def gguf_names(layers: int) -> dict[str, str]:
    """Name in the file of each parameter of the torch model."""
    names = {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "lm_head": "output",
    }
    parts = {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "self_attn.q_norm": "attn_q_norm",
        "self_attn.k_norm": "attn_k_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    for i in range(layers):
        names |= {f"model.layers.{i}.{ours}": f"blk.{i}.{theirs}" for ours, theirs in parts.items()}
    return {f"{ours}.weight": f"{theirs}.weight" for ours, theirs in names.items()}


def write_gguf(path: Path, model: nn.Module, kind: str) -> None:
    import gguf
    from gguf.quants import quantize

    config: Any = model.config
    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("no_vocab")
    stored = getattr(gguf.GGMLQuantizationType, KINDS[kind])
    names = gguf_names(config.num_hidden_layers)
    for name, value in model.named_parameters():
        numbers = value.detach().float().numpy()
        if numbers.ndim == 1:
            writer.add_tensor(names[name], numbers)
        else:
            writer.add_tensor(names[name], quantize(numbers, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# --- llama.cpp --------------------------------------------------------------------------------


class Llama:
    def __init__(self, path: Path, threads: int, vocabulary: int) -> None:
        import llama_cpp

        self.api, self.vocabulary = llama_cpp, vocabulary
        # Otherwise it writes pages to stderr.
        self.log = llama_cpp.llama_log_callback(lambda level, text, data: None)
        llama_cpp.llama_log_set(self.log, None)
        llama_cpp.llama_backend_init()
        model = llama_cpp.llama_model_load_from_file(
            str(path).encode(), llama_cpp.llama_model_default_params()
        )
        if not model:
            raise SystemExit(f"llama.cpp can't load {path}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = 256
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(model, params)
        self.batch = llama_cpp.llama_batch_init(PROMPT, 0, 1)

    def __call__(self, tokens: list[int]) -> None:
        api, batch = self.api, self.batch
        api.llama_memory_clear(api.llama_get_memory(self.context), False)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i] = token, i
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
            batch.logits[i] = 1
        if api.llama_decode(self.context, batch) != 0:
            raise SystemExit("llama_decode failed")
        api.llama_synchronize(self.context)

    def logits(self, count: int) -> Tensor:
        values = self.api.llama_get_logits(self.context)
        import numpy

        return torch.from_numpy(numpy.ctypeslib.as_array(values, (count, self.vocabulary)).copy())


# --- ours -------------------------------------------------------------------------------------


def quantised(model: nn.Module, kind: str) -> nn.Module:
    """With weights of 8 or 4 bits in each linear layer."""
    if kind == "bf16":
        return model
    layer = weight_only.Eight if kind == "int8" else weight_only.Four
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, layer.of(child.weight.detach()))
    return model


class Logits(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        return self.model(input_ids=ids, use_cache=False).logits


# --- measurements -----------------------------------------------------------------------------


def alternate(calls: list[Callable[[], Any]], seconds: float) -> list[dict[str, float]]:
    """Least milliseconds of each: of wall time and of processor time."""
    least = [{"wall": float("inf"), "cpu": float("inf")} for _ in calls]
    for call in calls:
        call()
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for call, best in zip(calls, least):
            call()  # the caches hold what this call needs, not the other one
            start, busy = time.perf_counter(), time.process_time()
            call()
            best["wall"] = min(best["wall"], (time.perf_counter() - start) * 1e3)
            best["cpu"] = min(best["cpu"], (time.process_time() - busy) * 1e3)
    return least


def compare(theirs: Llama, ours: nn.Module, ids: Tensor, seconds: float) -> dict[str, Any]:
    import gex

    count, numbers = ids.shape[1], ids[0].tolist()
    with torch.no_grad():
        compiled = gex.compile(ours, (ids,))
        theirs(numbers)
        logits, other = compiled(ids)[0].float(), theirs.logits(count)
        times = alternate([lambda: theirs(numbers), lambda: compiled(ids)], seconds)
    return {
        f"distance {count}": float((logits - other).norm() / other.norm()),
        f"llama.cpp {count}": times[0],
        f"gex {count}": times[1],
    }


def measure(kind: str, threads: int, layers: int, seconds: float) -> None:
    """Prints a line of JSON."""
    torch.set_num_threads(threads)
    model = model_of(layers)
    vocabulary = model.config.vocab_size
    ids = torch.randint(0, vocabulary, (1, PROMPT), generator=torch.Generator().manual_seed(1))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{kind}.gguf"
        write_gguf(path, model, kind)
        theirs = Llama(path, threads, vocabulary)
    ours = Logits(quantised(model, kind)).eval()
    result: dict[str, Any] = {}
    for tokens in (1, PROMPT):
        result |= compare(theirs, ours, ids[:, :tokens], seconds)
    print(json.dumps(result))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--seconds", type=float, default=10, help="for each pair of calls")
    parser.add_argument("--kind", choices=KINDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"nothing measured: {', '.join(missing)} not installed (see the top of this file)")
        return 0
    if args.kind is not None:
        measure(args.kind, args.threads, args.layers, args.seconds)
        return 0
    results = {}
    for kind in KINDS:
        command = [sys.executable, __file__, "--kind", kind, "--threads", str(args.threads)]
        command += ["--layers", str(args.layers), "--seconds", str(args.seconds)]
        environment = os.environ | {"GEX_THREADS": str(args.threads)}
        out = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
        results[kind] = json.loads(out.stdout.splitlines()[-1])
    clock = "cpu" if args.threads == 1 else "wall"
    print(f"least {clock} time in ms, {args.threads} thread(s)")
    print(f"{'tokens':>6} {'weights':>8} {'llama.cpp':>10} {'gex':>8} {'ratio':>6} {'distance':>9}")
    for tokens in (1, PROMPT):
        best = min(results[kind][f"llama.cpp {tokens}"][clock] for kind in KINDS)
        for kind, name in KINDS.items():
            theirs = results[kind][f"llama.cpp {tokens}"][clock]
            ours = results[kind][f"gex {tokens}"][clock]
            distance = results[kind][f"distance {tokens}"]
            print(
                f"{tokens:6} {kind + '/' + name:>8} {theirs:10.1f} {ours:8.1f} {ours / theirs:6.2f}"
                f" {distance:9.1e}   of the best {ours / best:.2f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
