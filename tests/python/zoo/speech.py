"""Speech and sound."""

from __future__ import annotations

from typing import Any

from zoo.model import BODY, PAIR, TOKENS, Model, ids, mel, noise, sound

_FEATURES: dict[str, Any] = {
    **BODY,
    "vocab_size": 32,
    "initializer_range": 0.1,
    "conv_dim": (32, 32),
    "conv_kernel": (10, 3),
    "conv_stride": (5, 2),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
_PAIR: dict[str, Any] = {
    **PAIR,
    "max_source_positions": 50,
    "max_target_positions": 32,
    "decoder_start_token_id": 1,
}


def _ctc(config: str, more: dict[str, Any] | None = None, **flags: Any) -> Model:
    return Model("AutoModelForCTC", config, {**_FEATURES, **(more or {})}, sound, **flags)


def _frames(batch: int) -> dict[str, Any]:
    return {"input_features": noise(batch, 40, 16)}


MODELS: dict[str, Model] = {
    "audio_spectrogram_transformer": Model(
        "ASTForAudioClassification",
        "ASTConfig",
        {
            **BODY,
            "patch_size": 4,
            "frequency_stride": 4,
            "time_stride": 4,
            "max_length": 24,
            "num_mel_bins": 16,
        },
        lambda batch: {"input_values": noise(batch, 24, 16)},
        backward=True,
    ),
    "dac": Model(
        "DacModel",
        "DacConfig",
        {
            "encoder_hidden_size": 8,
            "downsampling_ratios": [2, 2],
            "decoder_hidden_size": 16,
            "n_codebooks": 2,
            "codebook_size": 16,
            "codebook_dim": 4,
        },
        lambda batch: {"input_values": noise(batch, 1, 64)},
    ),
    "data2vec_audio": _ctc("Data2VecAudioConfig"),
    "encodec": Model(
        "EncodecModel",
        "EncodecConfig",
        {
            "num_filters": 4,
            "hidden_size": 16,
            "upsampling_ratios": [2, 2],
            "codebook_size": 16,
            "num_lstm_layers": 1,
            "codebook_dim": 16,
        },
        lambda batch: {"input_values": noise(batch, 1, 64)},
        breaks="branches on the contents of the padding mask",
    ),
    "hubert": _ctc("HubertConfig", backward=True),
    "moonshine": Model(
        "MoonshineForConditionalGeneration",
        "MoonshineConfig",
        {
            **TOKENS,
            "hidden_size": 64,
            "intermediate_size": 128,
            "encoder_num_hidden_layers": 1,
            "decoder_num_hidden_layers": 1,
            "encoder_num_attention_heads": 4,
            "decoder_num_attention_heads": 4,
            "decoder_start_token_id": 1,
            "max_position_embeddings": 64,
        },
        lambda batch: {
            "input_values": noise(batch, 2000),
            "decoder_input_ids": ids(batch, 7),
            "use_cache": False,
        },
        generates=True,
    ),
    "sew": _ctc("SEWConfig", {"squeeze_factor": 2}),
    "speech_to_text": Model(
        "Speech2TextForConditionalGeneration",
        "Speech2TextConfig",
        {**_PAIR, "input_feat_per_channel": 16, "conv_channels": 32, "num_conv_layers": 2},
        lambda batch: {**_frames(batch), "decoder_input_ids": ids(batch, 7), "use_cache": False},
        generates=True,
    ),
    "unispeech": _ctc("UniSpeechConfig"),
    "unispeech_sat": _ctc("UniSpeechSatConfig"),
    "wav2vec2": _ctc("Wav2Vec2Config", backward=True),
    "wav2vec2_bert": Model(
        "Wav2Vec2BertForCTC",
        "Wav2Vec2BertConfig",
        {**_FEATURES, "feature_projection_input_dim": 16},
        _frames,
    ),
    "wav2vec2_conformer": _ctc("Wav2Vec2ConformerConfig", {"position_embeddings_type": "relative"}),
    "wavlm": _ctc("WavLMConfig", {"num_buckets": 16}),
    "whisper": Model(
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        {**_PAIR, "num_mel_bins": 16, "begin_suppress_tokens": None},
        mel,
        generates=True,
        backward=True,
    ),
}
