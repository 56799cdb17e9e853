"""From a trained model to a SavedModel that takes text and gives text."""

import dataclasses
import pathlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from models.keras_recurrent import refuse_cudnn
from models.search.hypotheses import Hypotheses, SearchOptions
from models.tokenizers import SentencePieceText, after_begin, with_begin, with_end
from models.translation import TranslationModel
from serving import linter, signatures
from serving.warmup import write_warmup


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """What is baked into an export.

    Attributes:
        model_name: Name it will be served under.
        search: Search of `serving_default` and `align`.
        nbest: Translations of `nbest`, whose beam is at least as wide.
        max_source_length: Pieces kept of a sentence.
    """

    model_name: str
    search: SearchOptions
    nbest: int
    max_source_length: int


def export_translation(
    model: TranslationModel,
    source: SentencePieceText,
    target: SentencePieceText,
    options: ExportOptions,
    folder: pathlib.Path,
    warmup_texts: Sequence[str] = (),
) -> None:
    """Write a SavedModel, with its warm-up requests, and lint it.

    Normalising, tokenising, search and detokenising are inside the graph.

    Args:
        model: The trained model.
        source: Vocabulary of the source.
        target: Vocabulary of the target.
        options: What is baked in.
        folder: Where to write; not yet a version folder that a server looks at.
        warmup_texts: Sentences a server translates while it loads the model, one a request and
            signature.

    Raises:
        UserError: If the linter finds what production would refuse.
    """
    refuse_cudnn(model)
    service = TranslationService(model, source, target, options)
    tf.saved_model.save(service, str(folder), signatures=service.signatures())
    if warmup_texts:
        write_warmup(folder, _warmup_requests(warmup_texts), options.model_name)
    linter.check(folder)


class TranslationService(tf.Module):
    """The graph functions behind the signatures.

    The model itself is not attached, only what the functions read: a SavedModel keeps every
    function of an attached object, also those that no server could run.

    Args:
        model: The trained model.
        source: Vocabulary of the source.
        target: Vocabulary of the target.
        options: What is baked in.
    """

    def __init__(
        self,
        model: TranslationModel,
        source: SentencePieceText,
        target: SentencePieceText,
        options: ExportOptions,
    ):
        super().__init__()
        self._model = _Unattached(model)
        self._source = _Unattached(source)
        self._target = _Unattached(target)
        self._options = options
        self.weights = [weight.value for weight in model.weights]
        self.vocabularies = [*source.resources, *target.resources]

    def signatures(self) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """The functions, traced for any number of sentences."""
        methods = {
            signatures.TRANSLATE: self.translate,
            signatures.NBEST: self.nbest,
            signatures.ALIGN: self.align,
            signatures.FORCED_SCORE: self.score,
        }
        return {
            signature.name: tf.function(method).get_concrete_function(
                **{name: tf.TensorSpec([None], tf.string, name) for name in signature.input_names}
            )
            for signature, method in methods.items()
        }

    def translate(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """The best translation of each sentence, string [B], and its score."""
        found = self._search(self._source_ids(text), self._options.search)
        return {
            signatures.TRANSLATION: self._text(found.ids[:, 0, :]),
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
            signatures.TRANSLATIONS: tf.reshape(self._text(rows), [-1, count]),
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
            signatures.TRANSLATION: self._text(ids),
            signatures.SOURCE_TOKENS: self._source().pieces(source),
            signatures.TARGET_TOKENS: self._target().pieces(ids),
            signatures.ALIGNMENT: weights * real[:, :, tf.newaxis],
        }

    def score(self, source: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        """Log probability of given translations, and the number of pieces it is over."""
        ids = self._target().encode(_valid(target))  # [B, (T)]
        labels = with_end(ids).to_tensor()  # [B, T]
        forced = self._model().force(self._source_ids(source), with_begin(ids).to_tensor(), labels)
        return {
            signatures.LOG_PROBABILITY: tf.reduce_sum(forced.log_probabilities, 1),
            signatures.TOKENS: tf.cast(tf.math.count_nonzero(labels, 1), tf.int32),
        }

    def _source_ids(self, text: tf.Tensor) -> tf.Tensor:
        """Ids of source sentences, int32 [B, S], end mark last, padded."""
        ids = self._source().encode(_valid(text))[:, : self._options.max_source_length]
        return with_end(ids).to_tensor()

    def _search(self, source: tf.Tensor, options: SearchOptions) -> Hypotheses:
        return self._model().translate(source, options)

    def _text(self, ids: tf.Tensor) -> tf.Tensor:
        """Texts, string [N], of ids [N, L]."""
        return _valid(self._target().decode(ids))


class _Unattached:
    """Holds an object out of sight of `tf.Module`, which would attach it to the SavedModel."""

    def __init__(self, value):
        self._value = value

    def __call__(self):
        return self._value


def _valid(text: tf.Tensor) -> tf.Tensor:
    """Strings with whatever is not UTF-8 replaced by U+FFFD."""
    return tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace")


def _warmup_requests(texts: Sequence[str]) -> dict[str, list[dict[str, np.ndarray]]]:
    """One request a sentence and signature, of the shapes that real ones have."""
    return {
        signature.name: [
            {name: np.array([text.encode()], object) for name in signature.input_names}
            for text in texts
        ]
        for signature in signatures.TRANSLATION_SIGNATURES
    }
