"""One model of the zoo: its classes, configuration and inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

Inputs = Callable[[int], dict[str, Any]]  # of a batch size


@dataclass(frozen=True)
class Model:
    auto: str  # class of transformers that makes the model of a configuration
    config: str
    arguments: Mapping[str, Any]
    inputs: Inputs
    generates: bool = False  # has a cache that generate() uses
    generator: str = ""  # the part whose forward generate() calls, if not the whole
    backward: bool = False  # gradients are compared too
    breaks: str = ""  # why Dynamo itself can't take it as one graph
    # Modes that PyTorch or transformers themselves do not support, each with the reason.
    cannot: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)  # more arguments of generate()
    tolerance: float = 1e-4  # of the largest number of a result

    def build(self) -> torch.nn.Module:
        import transformers

        torch.manual_seed(0)
        config = getattr(transformers, self.config)(**self.arguments)
        cls = getattr(transformers, self.auto)
        model = cls.from_config(config) if self.auto.startswith("Auto") else cls(config)
        # Buffers and parameters that a checkpoint would fill must not be uninitialised.
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point() and not tensor.detach().isfinite().all():
                tensor.detach().nan_to_num_(0, 0, 0)
        return model.eval()


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ids(batch: int, length: int = 12, low: int = 3, high: int = 200) -> torch.Tensor:
    return torch.randint(low, high, (batch, length), generator=_generator())


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=_generator())


def text(batch: int) -> dict[str, Any]:
    return {"input_ids": ids(batch), "use_cache": False}


def masked_text(batch: int) -> dict[str, Any]:
    mask = torch.ones(batch, 12, dtype=torch.int64)
    mask[0, 9:] = 0
    return {"input_ids": ids(batch), "attention_mask": mask}


def text_pair(batch: int) -> dict[str, Any]:
    return {"input_ids": ids(batch), "decoder_input_ids": ids(batch, 7), "use_cache": False}


def image(batch: int) -> dict[str, Any]:
    return {"pixel_values": noise(batch, 3, 32, 32)}


def image_64(batch: int) -> dict[str, Any]:
    return {"pixel_values": noise(batch, 3, 64, 64)}


def sound(batch: int) -> dict[str, Any]:
    return {"input_values": noise(batch, 400)}


def mel(batch: int) -> dict[str, Any]:
    return {
        "input_features": noise(batch, 16, 100),
        "decoder_input_ids": ids(batch, 7),
        "use_cache": False,
    }


BODY: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
TOKENS: dict[str, Any] = {
    "vocab_size": 200,
    "initializer_range": 0.1,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": 0,
}
TEXT: dict[str, Any] = {**BODY, **TOKENS, "max_position_embeddings": 64}
PAIR: dict[str, Any] = {  # an encoder and a decoder
    **{k: v for k, v in TOKENS.items() if k != "initializer_range"},
    "init_std": 0.1,
    "d_model": 64,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
}
GROUPED: dict[str, Any] = {**TEXT, "num_key_value_heads": 2}
PATCHES: dict[str, Any] = {**BODY, "image_size": 32, "patch_size": 8, "initializer_range": 0.1}
