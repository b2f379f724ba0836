"""Images and text (or sound and text) together."""

from __future__ import annotations

from typing import Any

import torch

from zoo.model import GROUPED, PATCHES, TEXT, TOKENS, Model, ids, image, noise

_IMAGE_TOKEN = 199


def _contrast(batch: int) -> dict[str, Any]:
    return {"input_ids": ids(batch), **image(batch)}


def _with_image(tokens: int, **pixels: Any) -> Any:
    """Text whose first places stand for the patches of an image."""

    def inputs(batch: int) -> dict[str, Any]:
        words = ids(batch, tokens + 6, high=_IMAGE_TOKEN)
        words[:, 1 : tokens + 1] = _IMAGE_TOKEN
        return {"input_ids": words, "use_cache": False, **image(batch), **pixels}

    return inputs


def _qwen_image(batch: int) -> dict[str, Any]:
    """4 x 4 patches for each image, merged 2 by 2."""
    words = ids(batch, 12, high=190)
    words[:, 1] = 197
    words[:, 2:6] = _IMAGE_TOKEN
    words[:, 6] = 198
    types = torch.zeros_like(words)
    types[:, 2:6] = 1
    return {
        "input_ids": words,
        "attention_mask": torch.ones_like(words),
        "pixel_values": noise(batch * 16, 3 * 2 * 4 * 4),
        "image_grid_thw": torch.tensor([[1, 4, 4]] * batch),
        "mm_token_type_ids": types,
        "use_cache": False,
    }


_TOWERS: dict[str, Any] = {
    "text_config": {**TEXT, "eos_token_id": 2, "projection_dim": 32},
    "vision_config": {**PATCHES, "projection_dim": 32},
    "projection_dim": 32,
}
_QWEN_TEXT: dict[str, Any] = {
    **GROUPED,
    "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 10000.0},
}
_QWEN_TOKENS: dict[str, Any] = {
    "image_token_id": _IMAGE_TOKEN,
    "video_token_id": 196,
    "vision_start_token_id": 197,
    "vision_end_token_id": 198,
    "tie_word_embeddings": False,
}

MODELS: dict[str, Model] = {
    "altclip": Model(
        "AltCLIPModel",
        "AltCLIPConfig",
        {**_TOWERS, "text_config": {**TEXT, "project_dim": 32}},
        _contrast,
        backward=True,
    ),
    "blip": Model(
        "BlipForConditionalGeneration",
        "BlipConfig",
        {
            **_TOWERS,
            "text_config": {
                **TEXT,
                "eos_token_id": 2,
                "sep_token_id": 2,
                "encoder_hidden_size": 64,
                "is_decoder": True,
            },
        },
        _contrast,
        generates=True,
        generator="text_decoder",
        cannot={"static_cache": "it writes past the end of one, in eager too (IndexError)"},
    ),
    "blip_2": Model(
        "Blip2ForConditionalGeneration",
        "Blip2Config",
        {
            "vision_config": PATCHES,
            "qformer_config": {**TEXT, "encoder_hidden_size": 64, "cross_attention_frequency": 1},
            "text_config": {
                "model_type": "opt",
                **TOKENS,
                "hidden_size": 64,
                "num_hidden_layers": 1,
                "ffn_dim": 128,
                "num_attention_heads": 4,
                "word_embed_proj_dim": 64,
                "max_position_embeddings": 64,
            },
            "num_query_tokens": 4,
            "image_token_index": _IMAGE_TOKEN,
        },
        lambda batch: {**_with_image(4)(batch)},
        generates=True,
        generator="language_model",
    ),
    "chinese_clip": Model("ChineseCLIPModel", "ChineseCLIPConfig", _TOWERS, _contrast),
    "clap": Model(
        "ClapModel",
        "ClapConfig",
        {
            "text_config": {**TEXT, "projection_hidden_act": "relu"},
            "audio_config": {
                "spec_size": 64,
                "num_mel_bins": 16,
                "patch_size": 4,
                "patch_stride": [4, 4],
                "patch_embeds_hidden_size": 16,
                "hidden_size": 32,
                "depths": [1, 1],
                "num_attention_heads": [2, 2],
                "window_size": 4,
                "num_hidden_layers": 2,
                "aff_block_r": 2,
            },
            "projection_dim": 32,
        },
        lambda batch: {"input_ids": ids(batch), "input_features": noise(batch, 1, 256, 16)},
    ),
    "clip": Model("CLIPModel", "CLIPConfig", _TOWERS, _contrast, backward=True),
    "clipseg": Model(
        "CLIPSegForImageSegmentation",
        "CLIPSegConfig",
        {
            **_TOWERS,
            "extract_layers": [0],
            "reduce_dim": 16,
            "decoder_num_attention_heads": 2,
            "decoder_intermediate_size": 32,
        },
        _contrast,
    ),
    "gemma3_vl": Model(
        "Gemma3ForConditionalGeneration",
        "Gemma3Config",
        {
            "text_config": {**GROUPED, "head_dim": 16, "sliding_window": 8},
            "vision_config": {**PATCHES},
            "mm_tokens_per_image": 4,
            "image_token_index": _IMAGE_TOKEN,
            "tie_word_embeddings": False,
        },
        _with_image(4),
        generates=True,
    ),
    "git": Model(
        "GitForCausalLM",
        "GitConfig",
        {**TEXT, "vision_config": PATCHES},
        lambda batch: {**_contrast(batch), "use_cache": False},
        generates=True,
        cannot={"static_cache": "its cache is made of tuples, in eager too (RuntimeError)"},
    ),
    "idefics3": Model(
        "Idefics3ForConditionalGeneration",
        "Idefics3Config",
        {
            "text_config": {"model_type": "llama", **GROUPED},
            "vision_config": PATCHES,
            "scale_factor": 2,
            "image_token_id": _IMAGE_TOKEN,
            "tie_word_embeddings": False,
        },
        lambda batch: {
            **_with_image(4)(batch),
            "pixel_values": noise(batch, 1, 3, 32, 32),
            "pixel_attention_mask": torch.ones(batch, 1, 32, 32, dtype=torch.bool),
        },
        generates=True,
    ),
    "internvl": Model(
        "InternVLForConditionalGeneration",
        "InternVLConfig",
        {
            "text_config": {"model_type": "qwen2", **GROUPED},
            "vision_config": {**PATCHES, "image_size": [32, 32], "patch_size": [8, 8]},
            "image_token_id": _IMAGE_TOKEN,
            "tie_word_embeddings": False,
        },
        _with_image(4),
        cannot={"dynamic": "Dynamo's guards on sizes fail (ValueRangeError)"},
        generates=True,
    ),
    "llava": Model(
        "LlavaForConditionalGeneration",
        "LlavaConfig",
        {
            "text_config": {"model_type": "llama", **GROUPED},
            "vision_config": {"model_type": "clip_vision_model", **PATCHES},
            "image_token_index": _IMAGE_TOKEN,
            "tie_word_embeddings": False,
        },
        _with_image(16),
        generates=True,
        backward=True,
    ),
    "owlvit": Model(
        "OwlViTForObjectDetection",
        "OwlViTConfig",
        {
            "text_config": {**TEXT, "eos_token_id": 2},
            "vision_config": PATCHES,
            "projection_dim": 64,
        },
        lambda batch: {"input_ids": ids(batch), **image(batch)},
        backward=True,
    ),
    "qwen2_5_vl": Model(
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen2_5_VLConfig",
        {
            **_QWEN_TOKENS,
            "text_config": _QWEN_TEXT,
            "vision_config": {
                "depth": 2,
                "hidden_size": 32,
                "num_heads": 2,
                "intermediate_size": 64,
                "patch_size": 4,
                "out_hidden_size": 64,
                "window_size": 8,
                "fullatt_block_indexes": [1],
            },
        },
        _qwen_image,
        breaks="cuts the sequence at lengths that it reads from a tensor",
        generates=True,
    ),
    "qwen2_vl": Model(
        "Qwen2VLForConditionalGeneration",
        "Qwen2VLConfig",
        {
            **_QWEN_TOKENS,
            "text_config": _QWEN_TEXT,
            "vision_config": {
                "depth": 2,
                "embed_dim": 32,
                "num_heads": 2,
                "patch_size": 4,
                "hidden_size": 64,
                "mlp_ratio": 2,
            },
        },
        _qwen_image,
        breaks="cuts the sequence at lengths that it reads from a tensor",
        generates=True,
    ),
    "siglip": Model("SiglipModel", "SiglipConfig", _TOWERS, _contrast, backward=True),
}
