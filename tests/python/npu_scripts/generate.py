"""Greedy generation over a growing sequence with a checkpoint, compiled and in eager mode."""

import sys
import time

import torch
import torch_npu  # noqa: F401
from transformers import AutoModelForCausalLM, AutoTokenizer

path, max_new_tokens = sys.argv[1], int(sys.argv[2])
tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=True)


def load():
    model = AutoModelForCausalLM.from_pretrained(
        path, trust_remote_code=True, attn_implementation="eager"
    )
    return model.to("npu:0").half().eval()


def generate(model, prompt):
    messages = [{"role": "user", "content": prompt}]
    text = tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    start = torch.tensor([tokenizer.encode(text)], dtype=torch.long).to("npu:0")
    ids, seen = start.clone(), []
    begin = time.time()
    for _ in range(max_new_tokens):
        with torch.no_grad():
            logits = model(ids).logits
        seen.append(logits[:, -1, :].float())
        token = torch.argmax(logits[:, -1, :], dim=-1, keepdim=True)
        if token.item() == tokenizer.eos_token_id:
            break
        ids = torch.cat([ids, token], dim=1)
    torch.npu.synchronize()
    text = tokenizer.decode(ids[0][start.shape[1] :], skip_special_tokens=True)
    return ids, torch.cat(seen), text, time.time() - begin


model = load()
print("device", model.device)
compiled = torch.compile(
    model,
    backend="npugraph_ex",
    fullgraph=True,
    dynamic=True,
    options={"capture_limit": 256},
)
baseline = load()
for prompt in ("请写一首关于春天的五言绝句", "What is the capital of France?"):
    ids, logits, text, seconds = generate(compiled, prompt)
    expected_ids, expected_logits, expected_text, _ = generate(baseline, prompt)
    torch.testing.assert_close(logits[0], expected_logits[0], rtol=2e-2, atol=2e-2)
    print("tokens", ids.shape[1], "distinct", len(set(ids[0].tolist())), f"{seconds:.2f} s")
    print("first step equal", logits[0].argmax().item() == expected_logits[0].argmax().item())
