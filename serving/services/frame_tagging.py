"""Frame tagging: files of the frames of clips in, a tag for each frame out."""

import numpy as np
import tensorflow as tf

from models.frame_tagging import FrameTaggingModel
from models.tokenizers import TextVocabulary
from serving import signatures
from serving.services.clips import black_clip, decode_clips
from serving.services.contract import Outputs, Service, Unattached


class FrameTaggingService(Service):
    """Decoding and tagging, all inside the graph.

    A clip with a frame that cannot be read has an error code and no tags; the others of its
    request have theirs.

    Args:
        model: The trained model.
        tags: Vocabulary of the tags.
        max_pixels: Of a frame; a larger one is an error.
        max_frames: Of a clip; later ones are not looked at.
    """

    declared = signatures.FRAME_TAGGING_SIGNATURES

    def __init__(
        self, model: FrameTaggingModel, tags: TextVocabulary, max_pixels: int, max_frames: int
    ):
        super().__init__(model, tags)
        self._tags = Unattached(tags)
        self._max_pixels = max_pixels
        self._max_frames = max_frames

    def methods(self):
        """The function of the signature."""
        return {signatures.TAG_FRAMES.name: self.tag}

    def tag(self, frames_bytes: tf.Tensor) -> Outputs:
        """The likeliest tag of each frame, and how likely it is, [B, F]."""
        size = self._model().encoder.picture_size
        clips = decode_clips(frames_bytes, size, self._max_pixels, self._max_frames)
        tags = self._model().tag(clips.inputs)
        return clips.placed(
            {
                signatures.TAGS: self._tags().pieces(tags.ids),
                signatures.SCORES: tags.probabilities,
            }
        )

    def warmup_value(self, name: str, text: str) -> np.ndarray:
        """Black frames."""
        return black_clip(self._model().encoder.picture_size)
