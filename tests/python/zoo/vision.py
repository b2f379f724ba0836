"""Vision: classification, detection, segmentation, depth."""

from __future__ import annotations

from typing import Any

from zoo.model import BODY, PATCHES, Inputs, Model, image, image_64, noise


def _classifier(config: str, arguments: dict[str, Any], **more: Any) -> Model:
    return Model("AutoModelForImageClassification", config, arguments, image, **more)


_STAGES: dict[str, Any] = {"hidden_sizes": [16, 32], "depths": [1, 1]}
_SWIN: dict[str, Any] = {
    "image_size": 32,
    "patch_size": 4,
    "embed_dim": 16,
    # The second layer shifts its windows. A second stage, whose sizes take Dynamo minutes to reason
    # about, is in the backbone of maskformer.
    "depths": [2],
    "num_heads": [2],
    "window_size": 4,
}
_VIDEO: dict[str, Any] = {**BODY, "image_size": 32, "patch_size": 8, "num_frames": 4}


def _video(batch: int) -> dict[str, Any]:
    return {"pixel_values": noise(batch, 4, 3, 32, 32)}


CLASSIFIERS: dict[str, Model] = {
    "beit": _classifier(
        "BeitConfig", {**PATCHES, "use_relative_position_bias": True}, backward=True
    ),
    "bit": _classifier("BitConfig", {**_STAGES, "embedding_size": 16, "num_groups": 4}),
    "convnext": _classifier("ConvNextConfig", {**_STAGES, "num_stages": 2}, backward=True),
    "convnextv2": _classifier("ConvNextV2Config", {**_STAGES, "num_stages": 2}),
    "deit": Model("DeiTForImageClassification", "DeiTConfig", PATCHES, image, backward=True),
    "dinov2": _classifier("Dinov2Config", PATCHES, backward=True),
    "dinov2_with_registers": _classifier("Dinov2WithRegistersConfig", PATCHES),
    "dinov3_vit": Model("AutoModel", "DINOv3ViTConfig", PATCHES, image, backward=True),
    "efficientnet": _classifier(
        "EfficientNetConfig",
        {
            "image_size": 32,
            "in_channels": [32, 8, 16],
            "out_channels": [8, 16, 24],
            "kernel_sizes": [3, 3, 5],
            "strides": [1, 2, 2],
            "num_block_repeats": [1, 1, 1],
            "expand_ratios": [1, 2, 2],
            "depthwise_padding": [],
            "width_coefficient": 1.0,
            "depth_coefficient": 1.0,
            "hidden_dim": 1280,
        },
    ),
    "focalnet": _classifier(
        "FocalNetConfig",
        {
            "image_size": 32,
            "patch_size": 4,
            "embed_dim": 16,
            "hidden_sizes": [16, 32],
            "depths": [1, 1],
            "focal_levels": [2, 2],
            "focal_windows": [3, 3],
        },
    ),
    "hiera": _classifier(
        "HieraConfig",
        {
            "image_size": [32, 32],
            "patch_size": [3, 3],
            "patch_stride": [2, 2],
            "patch_padding": [1, 1],
            "embed_dim": 16,
            "depths": [1, 1],
            "num_heads": [1, 2],
            "query_stride": [2, 2],
            "num_query_pool": 1,
            "masked_unit_size": [4, 4],
            "masked_unit_attention": [True, False],
        },
    ),
    "ijepa": _classifier("IJepaConfig", PATCHES, backward=True),
    "levit": Model(
        "LevitForImageClassification",
        "LevitConfig",
        {
            "image_size": 64,
            "hidden_sizes": [16, 32],
            "num_attention_heads": [2, 4],
            "depths": [1, 1],
            "key_dim": [8, 8],
            "attention_ratio": [2, 2],
            "mlp_ratio": [2, 2],
            "down_ops": [["Subsample", 8, 2, 4, 2, 2], [""]],
        },
        image_64,
    ),
    "mobilenet_v1": _classifier("MobileNetV1Config", {"depth_multiplier": 0.25, "image_size": 32}),
    "mobilenet_v2": _classifier(
        "MobileNetV2Config", {"depth_multiplier": 0.25, "image_size": 32}, backward=True
    ),
    "mobilevit": _classifier(
        "MobileViTConfig",
        {
            "image_size": 32,
            "hidden_sizes": [16, 24, 32],
            "neck_hidden_sizes": [8, 8, 16, 16, 16, 16, 32],
            "num_attention_heads": 2,
        },
    ),
    "poolformer": _classifier(
        "PoolFormerConfig",
        {
            "hidden_sizes": [16, 32],
            "depths": [1, 1],
            "patch_sizes": [7, 3],
            "strides": [4, 2],
            "padding": [2, 1],
            "num_encoder_blocks": 2,
        },
    ),
    "pvt": _classifier(
        "PvtConfig",
        {
            "image_size": 32,
            "num_encoder_blocks": 2,
            "depths": [1, 1],
            "sequence_reduction_ratios": [2, 1],
            "hidden_sizes": [16, 32],
            "patch_sizes": [4, 2],
            "strides": [4, 2],
            "num_attention_heads": [1, 2],
            "mlp_ratios": [2, 2],
        },
    ),
    "pvt_v2": _classifier(
        "PvtV2Config",
        {
            "image_size": 32,
            "num_encoder_blocks": 2,
            "depths": [1, 1],
            "sr_ratios": [2, 1],
            "hidden_sizes": [16, 32],
            "patch_sizes": [7, 3],
            "strides": [4, 2],
            "num_attention_heads": [1, 2],
            "mlp_ratios": [2, 2],
        },
    ),
    "regnet": _classifier("RegNetConfig", {**_STAGES, "embedding_size": 16, "groups_width": 8}),
    "resnet": _classifier("ResNetConfig", {**_STAGES, "embedding_size": 16}, backward=True),
    "siglip_vision": Model(
        "SiglipVisionModel", "SiglipVisionConfig", PATCHES, image, backward=True
    ),
    "swin": _classifier("SwinConfig", _SWIN, backward=True),
    "swinv2": _classifier("Swinv2Config", _SWIN),
    "timesformer": Model("TimesformerForVideoClassification", "TimesformerConfig", _VIDEO, _video),
    "videomae": Model(
        "VideoMAEForVideoClassification", "VideoMAEConfig", {**_VIDEO, "tubelet_size": 2}, _video
    ),
    "vit": _classifier("ViTConfig", PATCHES, backward=True),
    "vit_msn": _classifier("ViTMSNConfig", PATCHES, backward=True),
    "vivit": Model(
        "VivitForVideoClassification",
        "VivitConfig",
        {**_VIDEO, "tubelet_size": [2, 8, 8]},
        _video,
    ),
}

_DETR: dict[str, Any] = {
    "use_timm_backbone": False,
    "use_pretrained_backbone": False,
    "backbone": None,
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "num_queries": 6,
    "num_labels": 5,
}


def _backbone(features: list[str]) -> dict[str, Any]:
    import transformers

    sizes = {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]}
    arguments = {"embedding_size": 16, "out_features": features}
    arguments |= sizes if "stage4" in features else _STAGES
    return {"backbone_config": transformers.ResNetConfig(**arguments)}


def _detr(auto: str, config: str, features: list[str], more: dict[str, Any], **flags: Any) -> Model:
    return Model(auto, config, {**_DETR, **_backbone(features), **more}, image_64, **flags)


_HYBRID: dict[str, Any] = {
    "anchor_image_size": None,
    "num_queries": 6,
    "num_labels": 5,
    "d_model": 32,
    "encoder_hidden_dim": 32,
    "encoder_in_channels": [16, 32, 48],
    "feat_strides": [8, 16, 32],
    "encode_proj_layers": [2],
    "encoder_layers": 1,
    "encoder_ffn_dim": 64,
    "encoder_attention_heads": 4,
    "decoder_layers": 2,
    "decoder_ffn_dim": 64,
    "decoder_attention_heads": 4,
    "decoder_in_channels": [32, 32, 32],
    "decoder_n_points": 2,
}


def _rt_detr(auto: str, config: str, **more: Any) -> Model:
    import transformers

    backbone = transformers.RTDetrResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16, 32, 48],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    return Model(auto, config, {**_HYBRID, "backbone_config": backbone}, image_64, **more)


DETECTORS: dict[str, Model] = {
    "conditional_detr": _detr(
        "ConditionalDetrForObjectDetection", "ConditionalDetrConfig", ["stage2"], {}
    ),
    "dab_detr": _detr(
        "DabDetrForObjectDetection", "DabDetrConfig", ["stage2"], {"hidden_size": 32}
    ),
    "deformable_detr": _detr(
        "DeformableDetrForObjectDetection",
        "DeformableDetrConfig",
        ["stage1", "stage2"],
        {"num_feature_levels": 2},
    ),
    "detr": _detr("DetrForObjectDetection", "DetrConfig", ["stage2"], {}, backward=True),
    "rt_detr": _rt_detr("RTDetrForObjectDetection", "RTDetrConfig"),
    "rt_detr_v2": _rt_detr("RTDetrV2ForObjectDetection", "RTDetrV2Config"),
    "table_transformer": _detr(
        "TableTransformerForObjectDetection", "TableTransformerConfig", ["stage2"], {}
    ),
    "yolos": Model(
        "YolosForObjectDetection",
        "YolosConfig",
        {**PATCHES, "image_size": [32, 32], "num_detection_tokens": 5, "num_labels": 4},
        image,
        backward=True,
    ),
}


def _mask_former(auto: str, config: str) -> Model:
    import transformers

    backbone = transformers.SwinConfig(
        image_size=64,
        patch_size=4,
        embed_dim=16,
        depths=[1, 1, 1, 1],
        num_heads=[1, 2, 2, 4],
        window_size=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    arguments: dict[str, Any] = {
        "backbone_config": backbone,
        "backbone": None,
        "use_pretrained_backbone": False,
        "mask_feature_size": 32,
        "num_labels": 5,
    }
    if config == "Mask2FormerConfig":
        arguments |= {
            "hidden_dim": 32,
            "feature_size": 32,
            "encoder_feedforward_dim": 64,
            "dim_feedforward": 64,
            "encoder_layers": 1,
            "decoder_layers": 3,
            "num_attention_heads": 4,
            "num_queries": 6,
        }
    else:
        arguments |= {
            "fpn_feature_size": 32,
            "decoder_config": transformers.DetrConfig(**_DETR, **_backbone(["stage2"])),
        }
    return Model(auto, config, arguments, image_64)


def _points(batch: int) -> dict[str, Any]:
    import torch

    return {
        **image_64(batch),
        "input_points": torch.tensor([[[[20.0, 30.0]]]]).repeat(batch, 1, 1, 1),
    }


_FEATURES: dict[str, Any] = {
    "num_encoder_blocks": 2,
    "hidden_sizes": [16, 32],
    "depths": [1, 1],
    "num_attention_heads": [1, 2],
    "sr_ratios": [2, 1],
    "patch_sizes": [7, 3],
    "strides": [4, 2],
    "mlp_ratios": [2, 2],
    "decoder_hidden_size": 32,
}


def _dpt() -> Model:
    return Model(
        "DPTForDepthEstimation",
        "DPTConfig",
        {
            **PATCHES,
            "num_hidden_layers": 4,
            "backbone_out_indices": [0, 1, 2, 3],
            "neck_hidden_sizes": [16, 16, 32, 32],
            "fusion_hidden_size": 16,
        },
        image,
    )


def _segmenter(
    auto: str, config: str, arguments: dict[str, Any], inputs: Inputs = image_64
) -> Model:
    return Model(auto, config, arguments, inputs)


SEGMENTERS: dict[str, Model] = {
    "beit_segmentation": _segmenter(
        "BeitForSemanticSegmentation",
        "BeitConfig",
        {**PATCHES, "num_hidden_layers": 4, "out_indices": [1, 2, 3, 4], "image_size": 64},
    ),
    "dpt": _dpt(),
    "glpn": _segmenter("GLPNForDepthEstimation", "GLPNConfig", _FEATURES),
    "mask2former": _mask_former("Mask2FormerModel", "Mask2FormerConfig"),
    "maskformer": _mask_former("MaskFormerModel", "MaskFormerConfig"),
    "mobilenet_v2_segmentation": _segmenter(
        "MobileNetV2ForSemanticSegmentation", "MobileNetV2Config", {"depth_multiplier": 0.25}
    ),
    "sam": Model(
        "SamModel",
        "SamConfig",
        {
            "vision_config": {
                "hidden_size": 32,
                "output_channels": 16,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "image_size": 64,
                "patch_size": 8,
                "window_size": 4,
                "global_attn_indexes": [1],
                "mlp_dim": 64,
                "num_pos_feats": 8,
            },
            "prompt_encoder_config": {
                "hidden_size": 16,
                "image_size": 64,
                "patch_size": 8,
                "mask_input_channels": 4,
            },
            "mask_decoder_config": {
                "hidden_size": 16,
                "mlp_dim": 32,
                "num_attention_heads": 2,
                "iou_head_hidden_dim": 16,
            },
        },
        _points,
    ),
    "segformer": Model(
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        _FEATURES,
        image_64,
        backward=True,
    ),
    "upernet": _segmenter(
        "UperNetForSemanticSegmentation",
        "UperNetConfig",
        {
            **_backbone(["stage1", "stage2", "stage3", "stage4"]),
            "hidden_size": 16,
            "auxiliary_in_channels": 48,
            "auxiliary_channels": 8,
        },
    ),
}
