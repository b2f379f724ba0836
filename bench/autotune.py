"""Results of autotuning matmuls and convolutions for several models, on one thread."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from transformers import (
    BertConfig,
    BertModel,
    MobileNetV2Config,
    MobileNetV2Model,
    ResNetConfig,
    ResNetModel,
)

import gex


def report(
    name: str, fn: Callable[..., torch.Tensor], x: torch.Tensor, frozen: bool = False
) -> None:
    options = {"autotune": True, "frozen_parameter": frozen}
    compiled = torch.compile(fn, backend="gex", options=options)
    with torch.no_grad(), gex.collect() as graphs:
        for _ in range(4):
            compiled(x)
        start = time.perf_counter()
        gex._gex.wait_for_background()
        seconds = time.perf_counter() - start
    tuned = [line for graph in graphs if graph.runner for line in graph.runner.tuned]
    other = [line for line in tuned if ": by_rule" not in line]
    print(f"{name}: {len(tuned)} problems, {len(other)} tuned, {seconds:.2f} s")
    for line in other:
        print(f"  {line}")


def main() -> None:
    torch.set_num_threads(1)
    image, ids = torch.randn(1, 3, 224, 224), torch.randint(0, 1000, (1, 128))
    mobile = MobileNetV2Model(MobileNetV2Config()).eval()
    resnet = ResNetModel(ResNetConfig()).eval()
    bert = BertModel(BertConfig(num_hidden_layers=2)).eval()
    report("MobileNetV2", lambda x: mobile(x).last_hidden_state, image)
    report("ResNet-50", lambda x: resnet(x).last_hidden_state, image)
    report("ResNet-50, frozen", lambda x: resnet(x).last_hidden_state, image, frozen=True)
    report("BERT", lambda x: bert(x).last_hidden_state, ids)


if __name__ == "__main__":
    main()
