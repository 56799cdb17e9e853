"""Classification: text in, labels out."""

import tensorflow as tf

from models.classification import (
    HIERARCHICAL,
    ClassificationModel,
    Classified,
    classification_source,
)
from models.separators import SENTENCE
from models.special_ids import MARK_IDS
from models.tokenizers import TextVocabulary
from serving import signatures
from serving.services.contract import Outputs, Service, Unattached, valid_text
from serving.services.texts import with_sentences
from serving.signatures import Signature


class ClassificationService(Service):
    """Tokenising, parting into sentences and classifying, all inside the graph.

    The signature `attention` is declared where the model's pooling has weights to tell.

    Args:
        model: The trained model.
        source: Vocabulary of the texts.
        labels: Vocabulary of the labels.
        max_pieces: Pieces kept of a text.
    """

    declared: tuple[Signature, ...] = signatures.CLASSIFICATION_SIGNATURES

    def __init__(
        self,
        model: ClassificationModel,
        source: TextVocabulary,
        labels: TextVocabulary,
        max_pieces: int,
    ):
        super().__init__(model, source, labels)
        self._source = Unattached(source)
        self._labels = Unattached(labels)
        self._max_pieces = max_pieces
        self._pooling: str = model.options["pooling"]
        self._sentence_id = source.piece_id(SENTENCE)
        weighing = {
            "attention": signatures.WORD_ATTENTION,
            HIERARCHICAL: signatures.SENTENCE_ATTENTION,
        }
        if self._pooling in weighing:
            self.declared = (*type(self).declared, weighing[self._pooling])

    def methods(self):
        """The functions of the signatures."""
        return {
            signatures.CLASSIFY.name: self.classify,
            signatures.PROBABILITIES.name: self.probabilities,
            signatures.WORD_ATTENTION.name: self.attention,
        }

    def classify(self, text: tf.Tensor) -> Outputs:
        """The likeliest label of each text, string [B], and how likely it is."""
        found, _ = self._classified(text)
        return {
            signatures.LABEL: self._texts(found.labels),
            signatures.SCORE: tf.reduce_max(found.probabilities, -1),
        }

    def probabilities(self, text: tf.Tensor) -> Outputs:
        """All labels, string [B, C], the likeliest first, and how likely they are."""
        found, _ = self._classified(text)
        real = found.probabilities[:, len(MARK_IDS) :]  # [B, C]
        scores, places = tf.math.top_k(real, real.shape[1])  # [B, C]
        labels = self._texts(places + len(MARK_IDS))
        return {signatures.LABELS: labels, signatures.SCORES: scores}

    def attention(self, text: tf.Tensor) -> Outputs:
        """The likeliest label of each text, and the attention to its pieces and sentences."""
        found, source = self._classified(text)
        outputs = {
            signatures.LABEL: self._texts(found.labels),
            signatures.TOKENS: self._source().pieces(source),
            signatures.WEIGHTS: found.weights,
        }
        if found.sentence_weights is not None:
            outputs[signatures.SENTENCE_WEIGHTS] = found.sentence_weights
        return outputs

    def _classified(self, text: tf.Tensor) -> tuple[Classified, tf.Tensor]:
        """Labels of texts, and the ids [B, S] or [B, D, S] they were read from."""
        ids = self._source().encode(with_sentences(valid_text(text)))[:, : self._max_pieces]
        source = classification_source(ids, self._pooling, self._sentence_id)
        return self._model().classify(source), source

    def _texts(self, ids: tf.Tensor) -> tf.Tensor:
        return self._labels().pieces(ids)
