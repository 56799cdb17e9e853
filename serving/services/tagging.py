"""Tagging: text in, words and tags out."""

import tensorflow as tf

from models.spelling import spell
from models.tagging import TaggingModel
from models.tokenizers import TextVocabulary, WordText
from serving import signatures
from serving.services.contract import Outputs, Service, Unattached, valid_text


class TaggingService(Service):
    """Parting into words, looking them up and spelling them, tagging: all inside the graph.

    Args:
        model: The trained model.
        source: Vocabulary of the words.
        target: Vocabulary of the tags.
        longest_spelling: Bytes read of a word; None if no spelling is read.
        max_words: Words kept of a text.
    """

    declared = signatures.TAGGING_SIGNATURES

    def __init__(
        self,
        model: TaggingModel,
        source: WordText,
        target: TextVocabulary,
        longest_spelling: int | None,
        max_words: int,
    ):
        super().__init__(model, source, target)
        self._source = Unattached(source)
        self._target = Unattached(target)
        self._longest_spelling = longest_spelling
        self._max_words = max_words

    def methods(self):
        """The function of the signature."""
        return {signatures.TAG.name: self.tag}

    def tag(self, text: tf.Tensor) -> Outputs:
        """The words of each text, their likeliest tags and how likely these are, [B, S]."""
        words = self._source().split(valid_text(text))[:, : self._max_words]  # [B, (S)]
        inputs = {"source": self._source().lookup(words).to_tensor()}
        if self._longest_spelling:
            inputs["characters"] = spell(words, self._longest_spelling).to_tensor()
        tags = self._model().tag(inputs)
        return {
            signatures.TOKENS: words.to_tensor(),
            signatures.TAGS: self._target().pieces(tags.ids),
            signatures.SCORES: tags.probabilities,
        }
