"""The networks of keras.applications."""

import inspect
from types import ModuleType
from typing import Any

import keras
import tensorflow as tf

from models.errors import UserError
from models.vision.contract import Backbone, weights_file


@keras.saving.register_keras_serializable("seqloom")
class ApplicationsBackbone(Backbone):
    """A network of `keras.applications` without its top, with its own scaling of pixels.

    Args:
        network: Its name there, such as `MobileNetV2`.
        picture_size: Side of a picture.
        weights: `imagenet` are those that Keras downloads.
        **kwargs: Of the layer.

    Raises:
        UserError: If there is no such network.
    """

    def __init__(
        self, network: str, picture_size: int = 224, weights: str | None = None, **kwargs: Any
    ):
        super().__init__(weights, **kwargs)
        self.network_name = network
        self.picture_size = picture_size
        module = _modules().get(network)
        if module is None:
            raise UserError(
                f"there is no network {network!r} in keras.applications; expected one of "
                f"{', '.join(sorted(_modules()))}"
            )
        self.preprocess = module.preprocess_input
        path = weights if weights not in (None, "imagenet") else None
        # Keras's networks have one dtype policy, that of their layers when they are made.
        before = keras.config.dtype_policy()
        keras.config.set_dtype_policy(self.dtype_policy)
        try:
            self.network = getattr(keras.applications, network)(
                include_top=False,
                weights="imagenet" if weights == "imagenet" else None,
                input_shape=(picture_size, picture_size, 3),
            )
            if path is not None:
                with weights_file(path) as file:
                    self.network.load_weights(file)
        except (ValueError, OSError) as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"{network} with weights {weights!r}: {reason}") from None
        finally:
            keras.config.set_dtype_policy(before)
        self.feature_size = self.network.output_shape[-1]

    def build(self, *_: Any) -> None:
        """The network has its variables since it was made."""
        self.built = True

    def call(self, pixels: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Features [B, h, w, F] of pixels [B, H, W, 3] in 0..255."""
        scaled = self.preprocess(tf.cast(pixels, tf.float32))
        return self.network(scaled, training=training and self.trainable)

    def get_config(self) -> dict[str, Any]:
        """Arguments that make an equal layer but for its weights."""
        return {
            **super().get_config(),
            "network": self.network_name,
            "picture_size": self.picture_size,
        }


def _modules() -> dict[str, ModuleType]:
    """The module of each network, by the network's name."""
    found = {}
    for _, module in inspect.getmembers(keras.applications, inspect.ismodule):
        for name, member in inspect.getmembers(module, inspect.isfunction):
            if name[0].isupper() and hasattr(module, "preprocess_input"):
                if (
                    hasattr(keras.applications, name)
                    and "include_top" in inspect.signature(member).parameters
                ):
                    found[name] = module
    return found
