"""The models of the section `engines`. Models are never removed: one stays once it is here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    """A model of the list: its name and the shapes of its inputs, images as height x width x channels."""

    name: str
    shapes: tuple[tuple[int, ...], ...]


MODELS = (
    Model("ResNet-50, batch 1", ((1, 224, 224, 3),)),
    Model("ResNet-50, batch 8", ((8, 224, 224, 3),)),
    Model("MobileNetV2, batch 1", ((1, 224, 224, 3),)),
    Model("BERT-base, 1x128", ((1, 128),)),
    Model("BERT-base, 8x128", ((8, 128),)),
    Model("GPT-2 small, a decode step with cache", ((1, 1), (12, 2, 1, 12, 128, 64))),
    Model("LSTM, 128x512", ((1, 128, 512),)),
    Model("EfficientNet-B0, batch 1", ((1, 224, 224, 3),)),
    Model("ViT-B/16, batch 1", ((1, 224, 224, 3),)),
    Model("U-Net, batch 1", ((1, 256, 256, 3),)),
    Model("TCN, batch 1", ((1, 1024, 64),)),
    Model("GRU, 128x512", ((1, 128, 512),)),
    Model("Llama-shaped decoder, a step with cache", ((1, 1), (8, 2, 1, 4, 128, 64))),
)
