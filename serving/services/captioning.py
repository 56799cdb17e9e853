"""Captioning: files of pictures in, captions out."""

import dataclasses
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from models.encoder_decoder import EncoderDecoder
from models.search.hypotheses import SearchOptions
from models.tokenizers import TextVocabulary, after_begin
from models.vision.contract import Backbone
from models.vision.decoding import decode_pictures
from serving import signatures
from serving.services.contract import Outputs, Service, Unattached, text_of
from serving.services.placing import placed_all


@dataclasses.dataclass(frozen=True)
class CaptioningOptions:
    """What is baked into an export.

    Attributes:
        search: The search.
        max_pixels: Of a picture; a larger one is an error.
    """

    search: SearchOptions
    max_pixels: int


class _Captioned(NamedTuple):
    """What was found for the N of B pictures that could be read, or for one of row -1."""

    rows: tf.Tensor  # [N, 1], int32
    features: tf.Tensor  # [N, R, C, F]
    ids: tf.Tensor  # [N, T], int32
    scores: tf.Tensor  # [N], float32
    problems: tf.Tensor  # [B], int32


class CaptioningService(Service):
    """Decoding, features, search and detokenising, all inside the graph.

    A picture that cannot be read has an error code and an empty caption; the others of its
    request have theirs.

    Args:
        model: The trained model.
        backbone: Gives the features.
        captions: Vocabulary of captions.
        options: What is baked in.
    """

    declared = signatures.CAPTIONING_SIGNATURES

    def __init__(
        self,
        model: EncoderDecoder,
        backbone: Backbone,
        captions: TextVocabulary,
        options: CaptioningOptions,
    ):
        super().__init__(model, captions)
        self._backbone = Unattached(backbone)
        self.backbone_weights = [weight.value for weight in backbone.weights]
        self._captions = Unattached(captions)
        self._options = options

    def methods(self):
        """The functions of the signatures."""
        return {
            signatures.CAPTION_PICTURE.name: self.caption,
            signatures.ALIGN_CAPTION.name: self.align,
        }

    def caption(self, image_bytes: tf.Tensor) -> Outputs:
        """The best caption of each picture, string [B], and its score."""
        found = self._find(image_bytes)
        outputs = {
            signatures.CAPTION: text_of(self._captions(), found.ids),
            signatures.SCORE: found.scores,
        }
        return placed_all(outputs, found.rows, found.problems)

    def align(self, image_bytes: tf.Tensor) -> Outputs:
        """The best caption, and for each of its pieces the attention over the grid."""
        found, model = self._find(image_bytes), self._model()
        weights = model.force(found.features, after_begin(found.ids), found.ids).weights
        real = tf.cast(tf.not_equal(found.ids, 0), tf.float32)  # [N, T]
        shape = tf.concat([tf.shape(found.ids), tf.shape(found.features)[1:3]], 0)
        maps = tf.reshape(weights * real[:, :, tf.newaxis], shape)  # [N, T, R, C]
        outputs = {
            signatures.CAPTION: text_of(self._captions(), found.ids),
            signatures.TARGET_TOKENS: self._captions().pieces(found.ids),  # [N, T]
            signatures.ALIGNMENT: maps,
        }
        return placed_all(outputs, found.rows, found.problems)

    def warmup_value(self, name: str, text: str) -> np.ndarray:
        """A black picture: what it shows makes no difference to the time."""
        size = self._backbone().picture_size
        return np.array([tf.io.encode_jpeg(np.zeros([size, size, 3], np.uint8)).numpy()], object)

    def _find(self, files: tf.Tensor) -> _Captioned:
        backbone = self._backbone()
        decoded = decode_pictures(files, backbone.picture_size, self._options.max_pixels)
        features = backbone(decoded.pixels)  # [N, R, C, F]
        found = self._model().translate(features, self._options.search)
        rows = decoded.rows[:, tf.newaxis]  # [N, 1]
        ids, scores = found.ids[:, 0, :], found.scores[:, 0]
        return _Captioned(rows, features, ids, scores, decoded.problems)
