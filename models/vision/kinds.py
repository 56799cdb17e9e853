"""Backbones by name."""

from typing import Any

from models.vision.applications import ApplicationsBackbone
from models.vision.contract import Backbone
from models.vision.lite0 import EfficientNetLite0
from models.vision.small import SmallNetwork, TinyNetwork

BACKBONES: dict[str, type[Backbone]] = {
    "EfficientNetLite0": EfficientNetLite0,
    "small": SmallNetwork,
    "tiny": TinyNetwork,
}


def make_backbone(name: str, weights: str | None = None, **kwargs: Any) -> Backbone:
    """A backbone by name.

    Args:
        name: A key of `BACKBONES`, or a network of `keras.applications`.
        weights: `imagenet`, the path of a Keras weights file, or None.
        **kwargs: Of the layer.

    Raises:
        UserError: If there is no such network, or its weights are not to be had.
    """
    if name in BACKBONES:
        return BACKBONES[name](weights=weights, **kwargs)
    return ApplicationsBackbone(name, weights=weights, **kwargs)
