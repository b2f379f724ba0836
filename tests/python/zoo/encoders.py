"""Encoders and encoder-decoders of text."""

from __future__ import annotations

from typing import Any

from zoo.model import PAIR, TEXT, TOKENS, Model, masked_text, text_pair


def _masked(config: str, arguments: dict[str, Any], **more: Any) -> Model:
    return Model("AutoModelForMaskedLM", config, arguments, masked_text, **more)


def _pair(config: str, arguments: dict[str, Any], **more: Any) -> Model:
    flags = {"generates": True, **more}
    return Model("AutoModelForSeq2SeqLM", config, arguments, text_pair, **flags)


ENCODERS: dict[str, Model] = {
    "albert": _masked("AlbertConfig", {**TEXT, "embedding_size": 32}, backward=True),
    "bert": _masked("BertConfig", TEXT, backward=True),
    "big_bird": _masked("BigBirdConfig", {**TEXT, "attention_type": "original_full"}),
    "camembert": _masked("CamembertConfig", TEXT),
    "convbert": _masked("ConvBertConfig", {**TEXT, "embedding_size": 64, "conv_kernel_size": 3}),
    "deberta": _masked(
        "DebertaConfig",
        {**TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
        cannot={"dynamic": "Dynamo loses a number it read (PendingUnbackedSymbolNotFound)"},
    ),
    "deberta_v2": _masked(
        "DebertaV2Config",
        {**TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
        backward=True,
    ),
    "distilbert": _masked(
        "DistilBertConfig",
        {**TOKENS, "dim": 64, "n_layers": 1, "n_heads": 4, "hidden_dim": 128},
        backward=True,
    ),
    "electra": _masked("ElectraConfig", {**TEXT, "embedding_size": 32}, backward=True),
    "esm": _masked(
        "EsmConfig",
        {**TEXT, "mask_token_id": 4, "position_embedding_type": "rotary"},
        backward=True,
    ),
    "fnet": Model(
        "FNetForMaskedLM",
        "FNetConfig",
        {k: v for k, v in TEXT.items() if k != "num_attention_heads"},
        lambda batch: {"input_ids": masked_text(batch)["input_ids"]},
    ),
    "funnel": _masked(
        "FunnelConfig",
        {
            **TOKENS,
            "block_sizes": [1, 1],
            "d_model": 64,
            "n_head": 4,
            "d_head": 16,
            "d_inner": 128,
            "num_decoder_layers": 1,
        },
    ),
    "layoutlm": _masked("LayoutLMConfig", TEXT),
    "mobilebert": _masked(
        "MobileBertConfig",
        {**TEXT, "embedding_size": 32, "intra_bottleneck_size": 32, "num_hidden_layers": 1},
    ),
    "modernbert": _masked(
        "ModernBertConfig",
        {
            **TEXT,
            "num_hidden_layers": 2,
            "global_attn_every_n_layers": 2,
            "local_attention": 8,
            "cls_token_id": 1,
            "sep_token_id": 2,
        },
        backward=True,
    ),
    "mpnet": _masked("MPNetConfig", TEXT, backward=True),
    "roberta": _masked("RobertaConfig", TEXT, backward=True),
    "roformer": _masked("RoFormerConfig", {**TEXT, "embedding_size": 64}, backward=True),
    "squeezebert": _masked("SqueezeBertConfig", {**TEXT, "embedding_size": 64}),
    "xlm_roberta": _masked("XLMRobertaConfig", TEXT, backward=True),
}

_T5: dict[str, Any] = {
    **{k: v for k, v in TOKENS.items() if k != "initializer_range"},
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 128,
    "num_layers": 1,
    "num_heads": 4,
    "decoder_start_token_id": 0,
    "initializer_factor": 4.0,
}
_BART: dict[str, Any] = {
    **PAIR,
    "max_position_embeddings": 64,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}

ENCODER_DECODERS: dict[str, Model] = {
    "bart": _pair("BartConfig", _BART, backward=True),
    "blenderbot": _pair("BlenderbotConfig", _BART),
    "led": _pair(
        "LEDConfig",
        {
            **_BART,
            "attention_window": 4,
            "max_encoder_position_embeddings": 64,
            "max_decoder_position_embeddings": 64,
        },
        breaks="branches on the contents of the attention mask",
    ),
    "m2m_100": _pair("M2M100Config", _BART),
    "marian": _pair("MarianConfig", {**_BART, "init_std": 0.05}, backward=True),
    "mbart": _pair("MBartConfig", _BART, backward=True),
    "mt5": _pair("MT5Config", _T5),
    "pegasus": _pair("PegasusConfig", _BART, backward=True),
    "prophetnet": _pair(
        "ProphetNetConfig",
        {
            **{
                k: v
                for k, v in _BART.items()
                if k
                not in (
                    "d_model",
                    "encoder_layers",
                    "decoder_layers",
                    "encoder_attention_heads",
                    "decoder_attention_heads",
                )
            },
            "hidden_size": 64,
            "num_encoder_layers": 1,
            "num_decoder_layers": 1,
            "num_encoder_attention_heads": 4,
            "num_decoder_attention_heads": 4,
        },
        cannot={"static_cache": "its mask is not made for one, in eager either (RuntimeError)"},
    ),
    "switch_transformers": _pair(
        "SwitchTransformersConfig",
        {
            **_T5,
            "initializer_factor": 1.0,
            "num_experts": 4,
            "num_sparse_encoder_layers": 1,
            "num_sparse_decoder_layers": 1,
        },
        breaks="raises inside a helper that it calls",
        generates=False,
    ),
    "t5": _pair("T5Config", _T5, backward=True),
    "umt5": _pair("UMT5Config", _T5),
}
