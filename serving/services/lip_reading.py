"""Lip reading: files of the frames of clips in, texts out."""

import dataclasses
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from models.lip_reading import LipReadingModel
from models.search.hypotheses import SearchOptions
from models.tokenizers import TextVocabulary
from models.vision.decoding import decode_pictures
from models.vision.problems import EMPTY, NO_PROBLEM
from serving import signatures
from serving.services.contract import Outputs, Service, Unattached, valid_text
from serving.services.placing import placed


@dataclasses.dataclass(frozen=True)
class LipReadingOptions:
    """What is baked into an export.

    Attributes:
        search: The search.
        max_pixels: Of a frame; a larger one is an error.
        max_frames: Of a clip; later ones are not looked at.
    """

    search: SearchOptions
    max_pixels: int
    max_frames: int


class _Clips(NamedTuple):
    """The N of B clips whose frames could all be read, or one of a black frame and row -1."""

    rows: tf.Tensor  # [N, 1], int32
    inputs: dict[str, tf.Tensor]  # of the model, [N, ...]
    problems: tf.Tensor  # [B], int32


class LipReadingService(Service):
    """Decoding, reading and detokenising, all inside the graph.

    A clip with a frame that cannot be read has an error code and an empty text; the others of
    its request have theirs.

    Args:
        model: The trained model.
        texts: Vocabulary of texts.
        options: What is baked in.
    """

    declared = signatures.LIP_READING_SIGNATURES

    def __init__(self, model: LipReadingModel, texts: TextVocabulary, options: LipReadingOptions):
        super().__init__(model, texts)
        self._texts = Unattached(texts)
        self._options = options

    def methods(self):
        """The functions of the signatures."""
        return {signatures.READ_LIPS.name: self.read, signatures.ALIGN_LIPS.name: self.align}

    def read(self, frames_bytes: tf.Tensor) -> Outputs:
        """The best text of each clip, string [B], and its score."""
        clips = self._clips(frames_bytes)
        found = self._model().translate(clips.inputs, self._options.search)
        outputs = {
            signatures.TEXT: self._text(found.ids[:, 0, :]),
            signatures.SCORE: found.scores[:, 0],
        }
        return self._placed(clips, outputs)

    def align(self, frames_bytes: tf.Tensor) -> Outputs:
        """The best text, and for each of its pieces the attention over the frames."""
        clips, model = self._clips(frames_bytes), self._model()
        ids = model.translate(clips.inputs, self._options.search).ids[:, 0, :]  # [N, L]
        outputs = {
            signatures.TEXT: self._text(ids),
            signatures.TARGET_TOKENS: self._texts().pieces(ids),
            signatures.ALIGNMENT: model.look(clips.inputs, ids),
        }
        return self._placed(clips, outputs)

    def warmup_value(self, name: str, text: str) -> np.ndarray:
        """Black frames: what they show makes no difference to the time."""
        size = self._model().encoder.picture_size
        black = tf.io.encode_jpeg(np.zeros([size, size, 3], np.uint8)).numpy()
        return np.array([[black] * _WARM_FRAMES], object)

    def _clips(self, files: tf.Tensor) -> _Clips:
        """Clips of files [B, F]."""
        files = files[:, : self._options.max_frames]
        missing = tf.cast(tf.equal(tf.shape(files)[1], 0), tf.int32)
        files = tf.pad(files, [[0, 0], [0, missing]])  # [B, T]
        count, longest = tf.shape(files)[0], tf.shape(files)[1]
        numbers = tf.range(longest)  # [T]
        given = tf.strings.length(files) > 0  # [B, T]
        frames = tf.reduce_max(tf.where(given, numbers + 1, 0), 1)  # [B]
        decoded = decode_pictures(
            tf.reshape(files, [-1]), self._model().encoder.picture_size, self._options.max_pixels
        )
        problems = tf.reshape(decoded.problems, [count, longest])  # [B, T]
        own = numbers < frames[:, tf.newaxis]  # [B, T]
        problems = tf.reduce_max(tf.where(own, problems, NO_PROBLEM), 1)  # [B]
        problems = tf.where(frames == 0, EMPTY, problems)
        # One more row, which is none of the request's, so that there always is a clip.
        rows = tf.where(tf.concat([problems == NO_PROBLEM, [True]], 0))[:, 0]
        rows = tf.cast(rows[: tf.maximum(tf.size(rows) - 1, 1)], tf.int32)  # [N]
        # A black frame behind all others is the spare row's, and pads.
        black = count * longest
        places = tf.where(decoded.rows < 0, black, decoded.rows)
        pixels = tf.cast(tf.round(decoded.pixels), tf.uint8)  # as records hold them
        shape = tf.concat([[black + 1], tf.shape(pixels)[1:]], 0)
        every = tf.scatter_nd(places[:, tf.newaxis], pixels, shape)  # [B * T + 1, S, S, 3]
        lengths = tf.gather(tf.concat([frames, [1]], 0), rows)  # [N]
        wanted = rows[:, tf.newaxis] * longest + numbers  # [N, T]
        wanted = tf.where(numbers < lengths[:, tf.newaxis], wanted, black)
        wanted = wanted[:, : tf.reduce_max(lengths)]
        real = tf.where(rows < count, rows, -1)
        inputs = {"pixels": tf.gather(every, wanted), "frames": lengths}
        return _Clips(real[:, tf.newaxis], inputs, problems)

    def _placed(self, clips: _Clips, outputs: Outputs) -> Outputs:
        count = tf.shape(clips.problems)[0]
        found = {name: placed(each, clips.rows, count) for name, each in outputs.items()}
        return {**found, signatures.ERROR_CODE: clips.problems}

    def _text(self, ids: tf.Tensor) -> tf.Tensor:
        """Texts, string [N], of ids [N, L]."""
        return valid_text(self._texts().decode(ids))


_WARM_FRAMES = 8
