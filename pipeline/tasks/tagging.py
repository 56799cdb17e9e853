"""Tagging: a tag for each word of a sentence."""

import dataclasses
from typing import Any

import rich.console
import tensorflow as tf

from models.sequence_model import SequenceModel
from models.special_ids import UNKNOWN_ID
from models.spelling import cut_words, spell
from models.tagging import TaggingModel
from models.tokenizers import WordText
from pipeline.batches import Marked, Pairs
from pipeline.tasks.aligned import AlignedJudge, score_tags
from pipeline.tasks.contract import Evaluation, Task
from serving.services.tagging import TaggingService


class TaggingTask(Task):
    """Words to tags, by `TaggingModel`."""

    def build_model(self) -> TaggingModel:
        """The tagger."""
        options = self.experiment.model
        model = TaggingModel(
            self.source.size,
            self.vocabularies.target.size,
            encoder=options.encoder.model_dump(),
            spelling=self._spelling(),
            word_dropout=options.tagging.word_dropout,
            **options.of_all_networks,
            name=self.experiment.export.model_name,
        )
        model.build()
        return model

    @property
    def source(self) -> WordText:
        """Vocabulary of the words."""
        assert isinstance(self.vocabularies.source, WordText)
        return self.vocabularies.source

    @property
    def longest_spelling(self) -> int | None:
        """Bytes read of a word; None if no spelling is read."""
        options = self.experiment.model.tagging
        return None if options.characters == "none" else options.longest_spelling

    @property
    def asks(self) -> dict[str, bool]:
        """Texts, where words are spelled."""
        return {"texts": self.longest_spelling is not None}

    def mark(
        self, source: tf.RaggedTensor, target: tf.RaggedTensor, texts: tf.Tensor | None = None
    ) -> Marked:
        """The words, their spelling where it is read, and the tags."""
        inputs = {"source": source}
        if self.longest_spelling and texts is not None:
            # Ids may have been cut to the limit, and texts are whole.
            words = cut_words(self.source.split(texts), source.row_lengths())  # [B, (S)]
            inputs["characters"] = spell(words, self.longest_spelling)  # [B, (S), (C)]
        return inputs, target

    def judge(self, model: SequenceModel) -> "TaggingJudge":
        """By tagging texts as the export does."""
        assert isinstance(model, TaggingModel)
        return TaggingJudge(self, model)

    def service(self, model: SequenceModel) -> TaggingService:
        """The signature of tagging."""
        assert isinstance(model, TaggingModel)
        return TaggingService(
            model,
            self.source,
            self.vocabularies.target,
            self.longest_spelling,
            self.experiment.export.max_source_length,
        )

    def _spelling(self) -> dict[str, Any] | None:
        model = self.experiment.model
        options = model.tagging
        common = {
            "kind": options.characters,
            "embedding_size": options.character_embedding_size,
            "units": options.character_units,
            "initializer_range": model.initializer_range,
        }
        own: dict[str, dict[str, Any] | None] = {
            "none": None,
            "cnn": {"window": options.character_window},
            "rnn": {
                "cell": model.cell,
                "cell_options": model.cell_options.model_dump(),
                "variational_dropout": model.variational_dropout.model_dump(),
            },
        }
        chosen = own[options.characters]
        return None if chosen is None else {**common, **chosen}


class TaggingJudge(AlignedJudge):
    """Accuracy of tags, of those of unknown words, and of whole sentences."""

    def __init__(self, task: TaggingTask, model: TaggingModel):
        super().__init__(task.experiment.search.batch_size, "sentences")
        self._task = task
        self._model = model
        self._tag = tf.function(
            self._tags_of_texts, input_signature=[tf.TensorSpec([None], tf.string)]
        )

    def sources(self, pairs: Pairs) -> list[str]:
        """The sentences."""
        return pairs.sources

    def tag(self, sources: list[str]) -> tf.Tensor:
        """Tags of sentences."""
        return self._tag(tf.constant(sources))

    def evaluate(
        self, pairs: Pairs, answers: list[str], console: rich.console.Console
    ) -> Evaluation:
        """Scores of tags, unknown words and whole sentences."""
        tags, references, scores, whole = score_tags(pairs, answers)
        known = [id != UNKNOWN_ID for ids in pairs.source_ids for id in ids]
        right = [
            found == expected
            for one, other in zip(tags, references, strict=True)
            for found, expected in zip(one, other, strict=True)
        ]
        unknown = [hit for hit, is_known in zip(right, known, strict=True) if not is_known]
        report = {
            "sentences": len(tags),
            "sentences_right": whole / len(tags),
            "unknown_words": len(unknown),
            "unknown_accuracy": sum(unknown) / len(unknown) if unknown else None,
            "tags": dataclasses.asdict(scores),
        }
        scores.table(console, "words")
        console.print(
            f"Right: {_share(sum(unknown), len(unknown))} words that the vocabulary does not "
            f"hold, {_share(whole, len(tags))} sentences to the last word"
        )
        lines = {"source": pairs.sources, "reference": pairs.targets, "hypothesis": answers}
        return Evaluation(report, lines)

    def _tags_of_texts(self, texts: tf.Tensor) -> tf.Tensor:
        source = self._task.source.encode(texts)
        inputs, _ = self._task.mark(source, source, texts)
        padded = {name: each.to_tensor() for name, each in inputs.items()}
        return self._task.vocabularies.target.pieces(self._model.tag(padded).ids)  # [B, S]


def _share(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({part / whole:.2%})" if whole else "0 of 0"
