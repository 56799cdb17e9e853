"""Translation: text in, text out."""

import dataclasses

import numpy as np
import tensorflow as tf

from models.encoder_decoder import EncoderDecoder
from models.search.hypotheses import Hypotheses, SearchOptions
from models.search.sampling import Draws
from models.separators import QUESTION, SENTENCE
from models.tokenizers import TextVocabulary, after_begin, with_begin, with_end
from serving import signatures
from serving.services.contract import Service, Unattached, text_of, valid_text
from serving.services.texts import with_sentences


@dataclasses.dataclass(frozen=True)
class TranslationOptions:
    """What is baked into an export.

    Attributes:
        search: Search of `serving_default`, `align` and `complete`.
        nbest: Translations of `nbest`, whose beam is at least as wide.
        max_source_length: Pieces kept of a sentence.
        separators: Those of `models.separators` that stand in the sources of its corpora: line
            breaks then part sentences, and of what ends in a question the end is kept.
    """

    search: SearchOptions
    nbest: int
    max_source_length: int
    separators: tuple[str, ...] = ()


class TranslationService(Service):
    """Normalising, tokenising, search and detokenising, all inside the graph.

    Args:
        model: The trained model.
        source: Vocabulary of the source.
        target: Vocabulary of the target.
        options: What is baked in.
    """

    declared = signatures.TRANSLATION_SIGNATURES

    def __init__(
        self,
        model: EncoderDecoder,
        source: TextVocabulary,
        target: TextVocabulary,
        options: TranslationOptions,
    ):
        super().__init__(model, source, target)
        self._source = Unattached(source)
        self._target = Unattached(target)
        self._options = options

    def methods(self):
        """The functions of the signatures."""
        return {
            signatures.TRANSLATE.name: self.translate,
            signatures.NBEST.name: self.nbest,
            signatures.ALIGN.name: self.align,
            signatures.FORCED_SCORE.name: self.score,
            signatures.SAMPLE.name: self.sample,
            signatures.COMPLETE.name: self.complete,
        }

    def translate(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The best translation of each sentence, string [B], and its score."""
        found = self._search(self._source_ids(text), self._options.search)
        return {
            signatures.TRANSLATION: text_of(self._target(), found.ids[:, 0, :]),
            signatures.SCORE: found.scores[:, 0],
        }

    def nbest(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The best translations of each sentence, string [B, N], and their scores."""
        count = self._options.nbest
        search = dataclasses.replace(
            self._options.search,
            kind="beam",
            beam_size=max(count, self._options.search.width),
            nbest=count,
        )
        found = self._search(self._source_ids(text), search)
        rows = tf.reshape(found.ids, [-1, tf.shape(found.ids)[2]])  # [B * N, L]
        return {
            signatures.TRANSLATIONS: tf.reshape(text_of(self._target(), rows), [-1, count]),
            signatures.SCORES: found.scores,
        }

    def align(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The best translation, and for each of its pieces the attention over the source."""
        source = self._source_ids(text)  # [B, S]
        ids = self._search(source, self._options.search).ids[:, 0, :]  # [B, T]
        target = after_begin(ids)  # [B, T]
        weights = self._model().force(source, target, ids).weights  # [B, T, S]
        real = tf.cast(tf.not_equal(ids, 0), tf.float32)  # [B, T]
        return {
            signatures.TRANSLATION: text_of(self._target(), ids),
            signatures.SOURCE_TOKENS: self._source().pieces(source),
            signatures.TARGET_TOKENS: self._target().pieces(ids),
            signatures.ALIGNMENT: weights * real[:, :, tf.newaxis],
        }

    def score(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        """Log probability of given translations, and the number of pieces it is over."""
        ids = self._target().encode(valid_text(target))  # [B, (T)]
        labels = with_end(ids).to_tensor()  # [B, T]
        forced = self._model().force(self._source_ids(source), with_begin(ids).to_tensor(), labels)
        return {
            signatures.LOG_PROBABILITY: tf.reduce_sum(forced.log_probabilities, 1),
            signatures.TOKENS: tf.cast(tf.math.count_nonzero(labels, 1), tf.int32),
        }

    def sample(
        self, text: tf.Tensor, seed: tf.Tensor, temperature: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """A translation of each sentence, drawn; truncated as the experiment's search says."""
        search = self._options.search
        everywhere = Draws.of(search, tf.shape(text)[0])
        draws = everywhere._replace(seeds=seed, temperature=temperature)
        found = self._model().sample(self._source_ids(text), search, draws)
        return {
            signatures.TRANSLATION: text_of(self._target(), found.ids[:, 0, :]),
            signatures.SCORE: found.scores[:, 0],
        }

    def complete(self, text: tf.Tensor, prefix: tf.Tensor) -> dict[str, tf.Tensor]:
        """The best translation of each sentence that begins with the pieces of its prefix."""
        begun = self._target().encode(valid_text(prefix)).to_tensor()  # [B, P]
        search = self._options.search
        found = self._model().translate(self._source_ids(text), search, begun)
        return {
            signatures.TRANSLATION: text_of(self._target(), found.ids[:, 0, :]),
            signatures.SCORE: found.scores[:, 0],
        }

    def warmup_value(self, name: str, text: str) -> np.ndarray:
        """Numbers as requests have them."""
        numbers = {signatures.SEED: np.array([1], np.int32)}
        numbers[signatures.TEMPERATURE] = np.array([1.0], np.float32)
        return numbers[name] if name in numbers else super().warmup_value(name, text)

    def _source_ids(self, text: tf.Tensor) -> tf.Tensor:
        """Ids of source sentences, int32 [B, S], end mark last, padded."""
        text = valid_text(text)
        if SENTENCE in self._options.separators:
            text = with_sentences(text)
        ids = self._source().encode(text)  # [B, (S)]
        longest = self._options.max_source_length
        kept = ids[:, -longest:] if QUESTION in self._options.separators else ids[:, :longest]
        return with_end(kept).to_tensor()

    def _search(self, source: tf.Tensor, options: SearchOptions) -> Hypotheses:
        return self._model().translate(source, options)
