"""Decoder-only language models."""

from __future__ import annotations

from typing import Any

from zoo.model import GROUPED, TEXT, TOKENS, Model, text


def _lm(config: str, arguments: dict[str, Any], **more: Any) -> Model:
    flags = {"generates": True, **more}
    return Model("AutoModelForCausalLM", config, arguments, text, **flags)


_GPT: dict[str, Any] = {"n_embd": 64, "n_layer": 1, "n_head": 4, "n_positions": 64, **TOKENS}

MODELS: dict[str, Model] = {
    "apertus": _lm("ApertusConfig", GROUPED),
    "biogpt": _lm("BioGptConfig", TEXT, backward=True),
    "bloom": _lm(
        "BloomConfig", {"hidden_size": 64, "n_layer": 1, "n_head": 4, **TOKENS}, backward=True
    ),
    "codegen": _lm("CodeGenConfig", {**_GPT, "rotary_dim": 8, "n_inner": 128}),
    "cohere": _lm("CohereConfig", GROUPED, backward=True),
    "cohere2": _lm(
        "Cohere2Config", {**GROUPED, "sliding_window": 8, "num_hidden_layers": 2, "head_dim": 16}
    ),
    "diffllama": _lm("DiffLlamaConfig", {**GROUPED, "head_dim": 16}),
    "exaone4": _lm(
        "Exaone4Config", {**GROUPED, "sliding_window": 8, "num_hidden_layers": 2, "head_dim": 16}
    ),
    "falcon": _lm("FalconConfig", {**TEXT, "new_decoder_architecture": True, "num_kv_heads": 2}),
    "gemma": _lm("GemmaConfig", {**GROUPED, "head_dim": 16}, backward=True),
    "gemma2": _lm(
        "Gemma2Config", {**GROUPED, "head_dim": 16, "sliding_window": 8, "num_hidden_layers": 2}
    ),
    "gemma3": _lm(
        "Gemma3TextConfig", {**GROUPED, "head_dim": 16, "sliding_window": 8, "num_hidden_layers": 2}
    ),
    "glm": _lm("GlmConfig", {**GROUPED, "head_dim": 16}),
    "glm4": _lm("Glm4Config", {**GROUPED, "head_dim": 16}, backward=True),
    "gpt2": _lm("GPT2Config", _GPT, backward=True),
    "gpt_bigcode": _lm("GPTBigCodeConfig", _GPT),
    "gpt_neo": _lm(
        "GPTNeoConfig",
        {
            **TOKENS,
            "hidden_size": 64,
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 8,
            "max_position_embeddings": 64,
        },
    ),
    "gpt_neox": _lm("GPTNeoXConfig", TEXT, backward=True),
    "gptj": _lm("GPTJConfig", {**_GPT, "rotary_dim": 8, "n_inner": 128}, backward=True),
    "granite": _lm("GraniteConfig", {**GROUPED, "residual_multiplier": 0.5}, backward=True),
    "helium": _lm("HeliumConfig", {**GROUPED, "head_dim": 16}),
    "llama": _lm("LlamaConfig", GROUPED, backward=True),
    "mistral": _lm(
        "MistralConfig",
        {**GROUPED, "head_dim": 16, "sliding_window": 8},
        backward=True,
    ),
    "mpt": _lm(
        "MptConfig", {**TOKENS, "d_model": 64, "n_layers": 1, "n_heads": 4, "max_seq_len": 64}
    ),
    "nemotron": _lm("NemotronConfig", {**GROUPED, "head_dim": 16}),
    "olmo": _lm("OlmoConfig", GROUPED),
    "olmo2": _lm("Olmo2Config", GROUPED, backward=True),
    "opt": _lm(
        "OPTConfig",
        {
            **TOKENS,
            "hidden_size": 64,
            "num_hidden_layers": 1,
            "ffn_dim": 128,
            "num_attention_heads": 4,
            "word_embed_proj_dim": 64,
            "max_position_embeddings": 64,
        },
        backward=True,
    ),
    "persimmon": _lm("PersimmonConfig", TEXT),
    "phi": _lm("PhiConfig", GROUPED, backward=True),
    "phi3": _lm("Phi3Config", GROUPED, backward=True),
    "qwen2": _lm("Qwen2Config", GROUPED, backward=True),
    "qwen3": _lm("Qwen3Config", {**GROUPED, "head_dim": 16}, backward=True),
    "smollm3": _lm("SmolLM3Config", GROUPED, backward=True),
    "stablelm": _lm("StableLmConfig", GROUPED, backward=True),
    "starcoder2": _lm("Starcoder2Config", GROUPED, backward=True),
    "xglm": _lm(
        "XGLMConfig",
        {**TOKENS, "d_model": 64, "num_layers": 1, "attention_heads": 4, "ffn_dim": 128},
    ),
}

_EXPERTS: dict[str, Any] = {**GROUPED, "num_experts": 4, "num_experts_per_tok": 2}
_LATENT: dict[str, Any] = {
    "kv_lora_rank": 16,
    "q_lora_rank": 24,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
}

EXPERT_MODELS: dict[str, Model] = {
    "deepseek_v2": _lm(
        "DeepseekV2Config",
        {
            **GROUPED,
            **_LATENT,
            "num_key_value_heads": 4,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "first_k_dense_replace": 0,
            "n_group": 1,
            "topk_group": 1,
        },
    ),
    "deepseek_v3": _lm(
        "DeepseekV3Config",
        {
            **GROUPED,
            **_LATENT,
            "num_key_value_heads": 4,
            "n_routed_experts": 8,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "first_k_dense_replace": 0,
            "n_group": 2,
            "topk_group": 1,
        },
    ),
    "ernie4_5_moe": _lm(
        "Ernie4_5_MoeConfig",
        {
            **GROUPED,
            "moe_num_experts": 4,
            "moe_k": 2,
            "moe_intermediate_size": 32,
            "moe_layer_start_index": 0,
            "moe_num_shared_experts": 1,
        },
    ),
    "glm4_moe": _lm(
        "Glm4MoeConfig",
        {
            **GROUPED,
            "head_dim": 16,
            "n_routed_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "first_k_dense_replace": 0,
        },
    ),
    "gpt_oss": _lm(
        "GptOssConfig",
        {
            **GROUPED,
            "head_dim": 16,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": 8,
            "num_hidden_layers": 2,
        },
    ),
    "granitemoe": _lm(
        "GraniteMoeConfig", {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2}
    ),
    "mixtral": _lm(
        "MixtralConfig",
        {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2},
        backward=True,
    ),
    "olmoe": _lm("OlmoeConfig", _EXPERTS, backward=True),
    "phimoe": _lm("PhimoeConfig", {**GROUPED, "num_local_experts": 4}),
    # The others have grouped experts.
    "qwen2_moe": _lm(
        "Qwen2MoeConfig",
        {
            **_EXPERTS,
            "experts_implementation": "batched_mm",
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
        },
        backward=True,
    ),
    "qwen3_moe": _lm(
        "Qwen3MoeConfig",
        {**_EXPERTS, "head_dim": 16, "moe_intermediate_size": 32},
        backward=True,
    ),
}

_MAMBA: dict[str, Any] = {**TOKENS, "hidden_size": 64, "num_hidden_layers": 1, "state_size": 8}

STATE_SPACE_MODELS: dict[str, Model] = {
    "bamba": _lm(
        "BambaConfig",
        {
            **GROUPED,
            "num_hidden_layers": 2,
            "attn_layer_indices": [1],
            "mamba_n_heads": 8,
            "mamba_d_head": 16,
            "mamba_d_state": 16,
            "mamba_chunk_size": 8,
        },
    ),
    "falcon_h1": _lm(
        "FalconH1Config",
        {
            **GROUPED,
            "head_dim": 16,
            "mamba_d_ssm": 64,
            "mamba_n_heads": 4,
            "mamba_d_head": 16,
            "mamba_d_state": 16,
            "mamba_chunk_size": 8,
        },
    ),
    "falcon_mamba": _lm("FalconMambaConfig", _MAMBA),
    "jamba": _lm(
        "JambaConfig",
        {
            **GROUPED,
            "num_hidden_layers": 2,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "num_experts": 4,
            "mamba_d_state": 8,
            "mamba_dt_rank": 4,
            "use_mamba_kernels": False,
        },
    ),
    "lfm2": _lm(
        "Lfm2Config", {**GROUPED, "num_hidden_layers": 2, "layer_types": ["conv", "full_attention"]}
    ),
    "mamba": _lm("MambaConfig", _MAMBA, backward=True),
    "mamba2": _lm(
        "Mamba2Config",
        {**_MAMBA, "num_heads": 8, "head_dim": 16, "n_groups": 2, "chunk_size": 8},
        backward=True,
    ),
    "qwen3_next": _lm(
        "Qwen3NextConfig",
        {
            **_EXPERTS,
            "head_dim": 16,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "num_hidden_layers": 2,
            "layer_types": ["linear_attention", "full_attention"],
        },
    ),
    "recurrent_gemma": _lm(
        "RecurrentGemmaConfig",
        {
            **GROUPED,
            "num_hidden_layers": 3,
            "head_dim": 16,
            "lru_width": 64,
            "attention_window_size": 8,
        },
    ),
    "rwkv": _lm(
        "RwkvConfig",
        {
            **TOKENS,
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "attention_hidden_size": 64,
            "intermediate_size": 128,
            "context_length": 64,
        },
    ),
    "xlstm": _lm(
        "xLSTMConfig",
        {
            **TOKENS,
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_heads": 4,
            "chunk_size": 8,
            "mode": "inference",
        },
        generates=False,
    ),
    "zamba2": _lm(
        "Zamba2Config",
        {
            **GROUPED,
            "mamba_d_state": 8,
            "n_mamba_heads": 8,
            "mamba_ngroups": 1,
            "chunk_size": 8,
            "num_hidden_layers": 2,
            "layers_block_type": ["mamba", "hybrid"],
            "num_mem_blocks": 1,
        },
    ),
}
