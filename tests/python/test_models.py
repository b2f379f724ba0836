"""Small random models of many kinds: equal to eager, static and dynamic."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import gex
from conftest import tensors

transformers = pytest.importorskip("transformers")

IDS = torch.randint(3, 200, (2, 12), generator=torch.Generator().manual_seed(0))
IMAGE = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
SOUND = torch.randn(2, 400, generator=torch.Generator().manual_seed(0))
MEL = torch.randn(2, 16, 100, generator=torch.Generator().manual_seed(0))
BODY = {
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
TEXT = {**BODY, "vocab_size": 200}
PATCHES = {**BODY, "image_size": 32, "patch_size": 8}
IDS_ONLY = {"input_ids": IDS, "use_cache": False}

# Name: (auto class, configuration class, its arguments, inputs)
MODELS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "qwen3": (
        "AutoModelForCausalLM",
        "Qwen3Config",
        {**TEXT, "num_key_value_heads": 2, "head_dim": 16},
        IDS_ONLY,
    ),
    "llama": ("AutoModelForCausalLM", "LlamaConfig", {**TEXT, "num_key_value_heads": 2}, IDS_ONLY),
    "gpt2": (
        "AutoModelForCausalLM",
        "GPT2Config",
        {"n_embd": 64, "n_layer": 1, "n_head": 4, "vocab_size": 200},
        IDS_ONLY,
    ),
    "gpt_neox": ("AutoModelForCausalLM", "GPTNeoXConfig", TEXT, IDS_ONLY),
    "opt": (
        "AutoModelForCausalLM",
        "OPTConfig",
        {
            "vocab_size": 200,
            "hidden_size": 64,
            "num_hidden_layers": 1,
            "ffn_dim": 128,
            "num_attention_heads": 4,
            "word_embed_proj_dim": 64,
        },
        IDS_ONLY,
    ),
    "mixtral": (
        "AutoModelForCausalLM",
        "MixtralConfig",
        {**TEXT, "num_key_value_heads": 2, "num_local_experts": 4},
        IDS_ONLY,
    ),
    "bert": (
        "AutoModelForMaskedLM",
        "BertConfig",
        TEXT,
        {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)},
    ),
    "t5": (
        "AutoModelForSeq2SeqLM",
        "T5Config",
        {
            "d_model": 64,
            "d_kv": 16,
            "d_ff": 128,
            "num_layers": 1,
            "num_heads": 4,
            "vocab_size": 200,
        },
        {"input_ids": IDS, "decoder_input_ids": IDS, "use_cache": False},
    ),
    "vit": ("AutoModelForImageClassification", "ViTConfig", PATCHES, {"pixel_values": IMAGE}),
    "resnet": (
        "AutoModelForImageClassification",
        "ResNetConfig",
        {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1]},
        {"pixel_values": IMAGE},
    ),
    "convnext": (
        "AutoModelForImageClassification",
        "ConvNextConfig",
        {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2},
        {"pixel_values": IMAGE},
    ),
    "clip": (
        "AutoModel",
        "CLIPConfig",
        {
            "text_config": {**TEXT, "max_position_embeddings": 32, "eos_token_id": 2},
            "vision_config": PATCHES,
            "projection_dim": 32,
        },
        {"input_ids": IDS, "pixel_values": IMAGE},
    ),
    "whisper": (
        "AutoModelForSpeechSeq2Seq",
        "WhisperConfig",
        {
            "d_model": 64,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 128,
            "decoder_ffn_dim": 128,
            "vocab_size": 200,
            "num_mel_bins": 16,
            "max_source_positions": 50,
            "max_target_positions": 32,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
            "begin_suppress_tokens": None,
        },
        {"input_features": MEL, "decoder_input_ids": IDS, "use_cache": False},
    ),
    "wav2vec2": (
        "AutoModelForCTC",
        "Wav2Vec2Config",
        {
            **BODY,
            "vocab_size": 32,
            "conv_dim": (32, 32),
            "conv_kernel": (10, 3),
            "conv_stride": (5, 2),
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 16,
            "num_conv_pos_embedding_groups": 4,
        },
        {"input_values": SOUND},
    ),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_model_equals_eager(name: str, dynamic: bool) -> None:
    auto, config, arguments, inputs = MODELS[name]
    model = (
        getattr(transformers, auto).from_config(getattr(transformers, config)(**arguments)).eval()
    )
    want = tensors(dict(model(**inputs)))
    compiled = torch.compile(model, backend="gex", dynamic=dynamic)
    with gex.collect() as graphs:
        got = tensors(dict(compiled(**inputs)))
        again = tensors(dict(compiled(**inputs)))
    assert len(got) == len(want) > 0
    for a, b, c in zip(got, want, again):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
        assert torch.equal(a, c)
    # A Program is whole: printed, parsed and compiled again it gives the same bits.
    for graph in graphs:
        graph.runner.reload_from_text()
    with gex.collect() as recompiled:
        from_text = tensors(dict(compiled(**inputs)))
    assert not recompiled
    assert all(torch.equal(a, b) for a, b in zip(got, from_text, strict=True))
    explanation = gex.Explanation(graphs)
    calls = sum(len(g.calls) for g in graphs)
    print(f"{name}: {explanation.native_share:.1%} native, {calls} calls, {len(graphs)} graphs")
    assert all(g.eager_reason is None for g in graphs)
    assert explanation.native_share > 0.9
