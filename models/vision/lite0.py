"""EfficientNet-Lite0: EfficientNet-B0 without squeezing, and with ReLU6 (Tan & Le 2019)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from models.errors import UserError
from models.vision.contract import Backbone, weights_file
from models.vision.imagenet import lite0_weights


class _Stage(NamedTuple):
    repeats: int
    kernel: int
    stride: int  # of the first block
    expansion: int
    filters: int


_STEM, _HEAD = 32, 1280
_STAGES = (
    _Stage(1, 3, 1, 1, 16),
    _Stage(2, 3, 2, 6, 24),
    _Stage(2, 5, 2, 6, 40),
    _Stage(3, 3, 2, 6, 80),
    _Stage(3, 5, 1, 6, 112),
    _Stage(4, 5, 2, 6, 192),
    _Stage(1, 3, 1, 6, 320),
)


class ConvolutionNorm(keras.layers.Layer):
    """Convolution without bias, padded as TensorFlow's SAME, batch normalisation, and ReLU6.

    Args:
        filters: Of an ordinary convolution; None for a depthwise one.
        kernel: Side of the window.
        stride: Of the window.
        activated: Whether ReLU6 comes last.
        keys: Names of the convolution and of the normalisation in the published weights.
    """

    def __init__(
        self,
        filters: int | None,
        kernel: int,
        stride: int,
        activated: bool,
        keys: tuple[str, str],
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.activated = activated
        self.keys = keys
        common: dict[str, Any] = {
            "strides": stride,
            "padding": "same",
            "use_bias": False,
            "dtype": self.dtype_policy,
        }
        self.convolution: keras.layers.Layer = (
            keras.layers.DepthwiseConv2D(kernel, **common, name="convolution")
            if filters is None
            else keras.layers.Conv2D(filters, kernel, **common, name="convolution")
        )
        self.norm = keras.layers.BatchNormalization(
            momentum=0.99, epsilon=1e-3, dtype=self.dtype_policy, name="norm"
        )

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Build for [B, H, W, F]."""
        self.convolution.build(input_shape)
        self.norm.build(self.convolution.compute_output_shape(input_shape))

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """[B, H, W, F] to [B, H / stride, W / stride, filters]."""
        outputs = self.norm(self.convolution(inputs), training=training)
        return tf.nn.relu6(outputs) if self.activated else outputs

    def assign(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take the published weights, whose kernels are [filters, F, k, k]."""
        convolution, norm = self.keys
        kernel = arrays[f"{convolution}.weight"]
        depthwise = isinstance(self.convolution, keras.layers.DepthwiseConv2D)
        order = (2, 3, 0, 1) if depthwise else (2, 3, 1, 0)
        self.convolution.set_weights([kernel.transpose(order)])  # [k, k, F, filters]
        parts = ("weight", "bias", "running_mean", "running_var")
        self.norm.set_weights([arrays[f"{norm}.{part}"] for part in parts])


class Block(keras.layers.Layer):
    """Inverted residual bottleneck (Sandler et al. 2018, section 3.4).

    Args:
        stage: Kernel, expansion and filters.
        filters_in: Filters of what it reads.
        stride: Of the depthwise convolution.
        key: Name in the published weights.
    """

    def __init__(self, stage: _Stage, filters_in: int, stride: int, key: str, **kwargs: Any):
        super().__init__(**kwargs)
        self.adds = stride == 1 and filters_in == stage.filters
        own: dict[str, Any] = {"dtype": self.dtype_policy}
        inner = filters_in * stage.expansion
        expand = (f"{key}._expand_conv", f"{key}._bn0")
        depthwise = (f"{key}._depthwise_conv", f"{key}._bn1")
        project = (f"{key}._project_conv", f"{key}._bn2")
        self.parts = [
            *(
                [ConvolutionNorm(inner, 1, 1, True, expand, **own, name="expand")]
                if stage.expansion > 1
                else []
            ),
            ConvolutionNorm(None, stage.kernel, stride, True, depthwise, **own, name="depthwise"),
            ConvolutionNorm(stage.filters, 1, 1, False, project, **own, name="project"),
        ]

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Build for [B, H, W, F]."""
        for part in self.parts:
            part.build(input_shape)
            input_shape = part.convolution.compute_output_shape(input_shape)

    def compute_output_shape(self, input_shape: tuple[int | None, ...]):
        """Shape [B, H / stride, W / stride, filters]."""
        for part in self.parts:
            input_shape = part.convolution.compute_output_shape(input_shape)
        return input_shape

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """[B, H, W, F] to [B, H / stride, W / stride, filters]."""
        outputs = inputs
        for part in self.parts:
            outputs = part(outputs, training=training)
        return inputs + outputs if self.adds else outputs


@keras.saving.register_keras_serializable("seqloom")
class EfficientNetLite0(Backbone):
    """Pixels [B, 224, 224, 3] to features [B, 7, 7, 1280], by `(x - 127) / 128`.

    Args:
        weights: `imagenet` takes those of the extra `imagenet`.
        **kwargs: Of the layer.
    """

    picture_size = 224
    feature_size = _HEAD

    def __init__(self, weights: str | None = None, **kwargs: Any):
        super().__init__(weights, **kwargs)
        own: dict[str, Any] = {"dtype": self.dtype_policy}
        self.stem = ConvolutionNorm(_STEM, 3, 2, True, ("_conv_stem", "_bn0"), **own, name="stem")
        self.blocks: list[Block] = []
        filters = _STEM
        for stage in _STAGES:
            for repeat in range(stage.repeats):
                number = len(self.blocks)
                stride = 1 if repeat else stage.stride
                block = Block(
                    stage, filters, stride, f"_blocks.{number}", **own, name=f"block_{number}"
                )
                self.blocks.append(block)
                filters = stage.filters
        self.head = ConvolutionNorm(_HEAD, 1, 1, True, ("_conv_head", "_bn1"), **own, name="head")

    def build(self, *_: Any) -> None:
        """Create the variables and give them the weights."""
        shape: Any = (None, self.picture_size, self.picture_size, 3)
        self.stem.build(shape)
        shape = self.stem.convolution.compute_output_shape(shape)
        for block in self.blocks:
            block.build(shape)
            shape = block.compute_output_shape(shape)
        self.head.build(shape)
        self.built = True
        if self.weights_name == "imagenet":
            arrays = lite0_weights()
            for part in self._convolutions():
                part.assign(arrays)
        elif self.weights_name is not None:
            self._load(self.weights_name)

    def call(self, pixels: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Features [B, 7, 7, 1280] of pixels [B, 224, 224, 3] in 0..255."""
        scaled = (tf.cast(pixels, self.compute_dtype) - 127.0) / 128.0  # [B, 224, 224, 3]
        features = self.stem(scaled, training=training)
        for block in self.blocks:
            features = block(features, training=training)
        return self.head(features, training=training)

    def _convolutions(self) -> list[ConvolutionNorm]:
        return [self.stem, *(part for block in self.blocks for part in block.parts), self.head]

    def _load(self, path: str) -> None:
        model = keras.Sequential([keras.Input((self.picture_size,) * 2 + (3,)), self])
        try:
            with weights_file(path) as file:
                model.load_weights(file)
        except (ValueError, OSError) as error:
            raise UserError(
                f"{path}: not weights of EfficientNet-Lite0 ({str(error).splitlines()[0]})"
            ) from None
