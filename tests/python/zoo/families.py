"""All models of the zoo."""

from __future__ import annotations

from zoo import decoders, encoders, multimodal, speech, vision
from zoo.model import Model

FAMILIES: dict[str, dict[str, Model]] = {
    "decoder": decoders.MODELS,
    "experts": decoders.EXPERT_MODELS,
    "state space": decoders.STATE_SPACE_MODELS,
    "encoder": encoders.ENCODERS,
    "encoder-decoder": encoders.ENCODER_DECODERS,
    "speech": speech.MODELS,
    "vision": vision.CLASSIFIERS,
    "detection": vision.DETECTORS,
    "segmentation": vision.SEGMENTERS,
    "multimodal": multimodal.MODELS,
}
MODELS: dict[str, Model] = {
    name: model for family in FAMILIES.values() for name, model in family.items()
}
