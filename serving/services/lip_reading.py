"""Lip reading: files of the frames of clips in, texts out."""

import dataclasses

import numpy as np
import tensorflow as tf

from models.lip_reading import LipReadingModel
from models.search.hypotheses import SearchOptions
from models.tokenizers import TextVocabulary
from serving import signatures
from serving.services.clips import Clips, black_clip, decode_clips
from serving.services.contract import Outputs, Service, Unattached, text_of


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
            signatures.TEXT: text_of(self._texts(), found.ids[:, 0, :]),
            signatures.SCORE: found.scores[:, 0],
        }
        return clips.placed(outputs)

    def align(self, frames_bytes: tf.Tensor) -> Outputs:
        """The best text, and for each of its pieces the attention over the frames."""
        clips, model = self._clips(frames_bytes), self._model()
        ids = model.translate(clips.inputs, self._options.search).ids[:, 0, :]  # [N, L]
        outputs = {
            signatures.TEXT: text_of(self._texts(), ids),
            signatures.TARGET_TOKENS: self._texts().pieces(ids),
            signatures.ALIGNMENT: model.look(clips.inputs, ids),
        }
        return clips.placed(outputs)

    def warmup_value(self, name: str, text: str) -> np.ndarray:
        """Black frames: what they show makes no difference to the time."""
        return black_clip(self._model().encoder.picture_size)

    def _clips(self, files: tf.Tensor) -> Clips:
        size, options = self._model().encoder.picture_size, self._options
        return decode_clips(files, size, options.max_pixels, options.max_frames)
