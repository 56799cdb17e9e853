"""Language models: how likely texts are, and how they go on."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from models.language_model import LanguageModel
from models.line_texts import LineTexts
from models.search.sampling import Draws
from models.tokenizers import TextVocabulary, with_end
from serving import signatures
from serving.services.contract import Service, Unattached, valid_text
from serving.warmup import Request

_WARMUP = {
    signatures.MAX_TOKENS: np.array([16], np.int32),
    signatures.TEMPERATURE: np.array([1.0], np.float32),
    signatures.TOP_K: np.array([10], np.int32),
    signatures.TOP_P: np.array([0.9], np.float32),
    signatures.SEED: np.array([1], np.int32),
}


@dataclasses.dataclass(frozen=True)
class LanguageModelOptions:
    """What is baked into an export.

    Attributes:
        max_prompt_length: Pieces kept of a prompt, its last ones.
        max_tokens: Pieces added to a prompt at most.
    """

    max_prompt_length: int
    max_tokens: int


class LanguageModelService(Service):
    """Scores and continuations, text in, text out.

    Args:
        model: The trained model.
        vocabulary: Of its texts.
        options: What is baked in.
    """

    declared = signatures.LANGUAGE_MODEL_SIGNATURES

    def __init__(
        self, model: LanguageModel, vocabulary: TextVocabulary, options: LanguageModelOptions
    ):
        super().__init__(model, vocabulary)
        self._texts = Unattached(LineTexts(vocabulary, model.stream))
        self._options = options

    def methods(self):
        """The functions of the signatures."""
        return {
            signatures.SCORE_TEXT.name: self.score,
            signatures.GENERATE.name: self.generate,
        }

    def score(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Log probability of each text, [B], and what it comes to a piece."""
        labels = with_end(self._texts().encode(valid_text(text))).to_tensor()  # [B, T]
        first = tf.fill([tf.shape(labels)[0], 1], self._model().first_id)
        target = tf.concat([first, labels[:, :-1]], 1)  # [B, T]
        found = tf.reduce_sum(self._model().log_probabilities(target, labels), 1)  # [B]
        tokens = tf.math.count_nonzero(labels, 1, dtype=tf.int32)  # [B], 1 at least
        return {
            signatures.LOG_PROBABILITY: found,
            signatures.TOKENS: tokens,
            signatures.PERPLEXITY: tf.exp(-found / tf.cast(tokens, tf.float32)),
        }

    def generate(
        self,
        prompt: tf.Tensor,
        max_tokens: tf.Tensor,
        temperature: tf.Tensor,
        top_k: tf.Tensor,
        top_p: tf.Tensor,
        seed: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """The continuation of each prompt, string [B], and its log probability."""
        prompts = self._texts().encode(valid_text(prompt))  # [B, (P)]
        prompts = prompts[:, -self._options.max_prompt_length :].to_tensor()  # [B, P]
        limits = tf.clip_by_value(max_tokens, 0, self._options.max_tokens)  # [B]
        found = self._model().generate(prompts, limits, Draws(temperature, top_k, top_p, seed))
        text = self._texts().continuation(prompts, found.ids[:, 0, :])
        return {
            signatures.TEXT: valid_text(text),
            signatures.SCORE: found.scores[:, 0],
            signatures.TOKENS: found.lengths[:, 0],
        }

    def warmup_requests(self, texts: Sequence[str]) -> dict[str, list[Request]]:
        """Prompts are the first halves of the texts."""
        requests = super().warmup_requests(texts)
        return requests | {
            signatures.GENERATE.name: super().warmup_requests(
                [text[: len(text) // 2] for text in texts]
            )[signatures.GENERATE.name]
        }

    def warmup_value(self, name: str, text: str) -> np.ndarray:
        """Numbers as requests have them."""
        return _WARMUP[name] if name in _WARMUP else super().warmup_value(name, text)
