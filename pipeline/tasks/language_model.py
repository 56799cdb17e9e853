"""Language modelling: texts without a source, line by line or as one stream."""

import math
from collections.abc import Sequence
from typing import Any

import rich.console
import rich.table
import tensorflow as tf

from models.errors import UserError
from models.language_model import TARGET, LanguageModel, first_id_of
from models.line_texts import LineTexts
from models.losses import perplexity
from models.search.sampling import Draws
from models.sequence_model import SequenceModel
from models.special_ids import UNKNOWN_ID
from models.tokenizers import ragged_ids, with_end
from pipeline.batch_plan import BatchOptions
from pipeline.batches import Marked, Pairs
from pipeline.monitor.panel import ValidationSamples
from pipeline.places import Place
from pipeline.streams import (
    StreamCut,
    draw_restarts,
    in_order_of,
    read_stream,
    stream_batches,
)
from pipeline.tasks.contract import Evaluation, Judge, Task, Validation
from pipeline.train.validation import Losses
from serving.services.language_model import LanguageModelOptions, LanguageModelService

_SAMPLE_WORDS = 100
_LONGEST_PROMPT = 40


class LanguageModelTask(Task):
    """Texts, by `LanguageModel`.

    A corpus in order makes a stream model, whose texts have many lines. With truncated
    backpropagation through time its batches are segments of the corpus; without it, lines.
    """

    def build_model(self) -> LanguageModel:
        """The recurrent model or the window."""
        options = self.experiment.model
        model = LanguageModel(
            self.vocabularies.target.size,
            layers=options.decoder.layers,
            units=options.decoder.units,
            residual=options.decoder.residual,
            **options.language_model.model_dump(),
            stream=self.stream,
            **options.of_all_networks,
            name=self.experiment.export.model_name,
        )
        model.build()
        if cut := self._cut(self.experiment.train.batch_tokens):
            model.carry(cut.rows)
        return model

    @property
    def stream(self) -> bool:
        """Whether texts have many lines."""
        return self.experiment.data.order == "corpus"

    def mark(self, source: tf.RaggedTensor, target: tf.RaggedTensor) -> Marked:
        """Lines after what stands before a first word, and as they are to be predicted."""
        labels = with_end(target)
        first = first_id_of(self.stream)
        begun = tf.concat([tf.fill([target.nrows(), 1], first), target], 1)
        return {TARGET: begun}, labels

    def judge(self, model: SequenceModel) -> "LanguageModelJudge":
        """By perplexity, which needs no answer; samples show what it has learned."""
        assert isinstance(model, LanguageModel)
        return LanguageModelJudge(self, model)

    def service(self, model: SequenceModel) -> LanguageModelService:
        """Scores and continuations."""
        assert isinstance(model, LanguageModel)
        export = self.experiment.export
        options = LanguageModelOptions(export.max_source_length, export.max_tokens)
        return LanguageModelService(model, self.vocabularies.target, options)

    def warmup_texts(self, pairs: Pairs) -> list[str]:
        """Lines."""
        return pairs.targets

    def training_batches(
        self, shards: Sequence[Place], options: BatchOptions, epoch: int, skip: int = 0
    ) -> tf.data.Dataset:
        """Segments of the corpus in order, or shuffled lines."""
        if cut := self._cut(options.batch_tokens):
            seed, share = self.experiment.seed, self.experiment.train.truncated_bptt.restarts
            words = read_stream(in_order_of(epoch, seed, shards))
            restarts = draw_restarts(share, cut, len(words), seed, epoch)
            return stream_batches(words, cut, skip, restarts)
        return super().training_batches(shards, options, epoch, skip)

    def validation_batches(self, shards: Sequence[Place], options: BatchOptions) -> tf.data.Dataset:
        """The split's segments, or its lines."""
        if cut := self._cut(options.batch_tokens):
            return stream_batches(read_stream(shards), cut)
        return super().validation_batches(shards, options)

    def count_batches(self, shards: Sequence[Place], options: BatchOptions) -> int:
        """Batches of an epoch."""
        if cut := self._cut(options.batch_tokens):
            return cut.segments(len(read_stream(shards)))
        return super().count_batches(shards, options)

    def _cut(self, batch_tokens: int) -> StreamCut | None:
        length = self.experiment.train.truncated_bptt.segment_length
        if not length:
            return None
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        if replicas > 1:
            raise UserError(
                f"train.truncated_bptt carries the state of one replica, and there are {replicas}; "
                f"train by one, or set segment_length to null"
            )
        return StreamCut.of(batch_tokens, length)


class LanguageModelJudge(Judge):
    """Perplexity by piece, word, character and byte; continuations as samples."""

    def __init__(self, task: LanguageModelTask, model: LanguageModel):
        self._texts = LineTexts(task.vocabularies.target, task.stream)
        self._model = model
        self._search = task.experiment.search
        self._continue = tf.function(
            self._continuations, input_signature=[tf.TensorSpec([None, None], tf.int32)]
        )

    def validate(self, pairs: Pairs, answers: list[str], samples: int) -> Validation:
        """Continue the first halves of lines."""
        chosen = [i for i, ids in enumerate(pairs.target_ids) if len(ids) > 1][:samples]
        return Validation({}, self._samples(pairs, chosen) if chosen else None)

    def evaluate(
        self, pairs: Pairs, answers: list[str], console: rich.console.Console
    ) -> Evaluation:
        """Nothing but how much of the texts the vocabulary knows."""
        pieces = sum(map(len, pairs.target_ids))
        unknown = sum(ids.count(UNKNOWN_ID) for ids in pairs.target_ids)
        rate = unknown / max(pieces, 1)
        console.print(f"Unknown pieces: {unknown:,} of {pieces:,} ({rate:.2%})")
        return Evaluation({"unknown_rate": rate}, {})

    def measure(self, losses: Losses, pairs: Pairs, console: rich.console.Console) -> dict:
        """What the loss comes to by units that any two vocabularies share.

        The end of a line counts as a word, a character and a byte.
        """
        nats = losses.loss * losses.tokens
        counts = {
            "piece": losses.tokens,
            "word": sum(len(text.split()) + 1 for text in pairs.targets),
            "character": sum(len(text) + 1 for text in pairs.targets),
            "byte": sum(len(text.encode()) + 1 for text in pairs.targets),
        }
        by_unit = {
            unit: {
                "count": count,
                "perplexity": perplexity(nats / count),
                "bits": nats / count / math.log(2.0),
            }
            for unit, count in counts.items()
        }
        console.print(_table(by_unit))
        return {"by_unit": by_unit}

    def _samples(self, pairs: Pairs, chosen: list[int]) -> ValidationSamples:
        prompts, rests = [], []
        for index in chosen:
            ids = pairs.target_ids[index]
            half = min(len(ids) // 2, _LONGEST_PROMPT)
            prompts.append(ids[:half])
            rests.append(ids[half:])
        given = ragged_ids(prompts).to_tensor()  # [B, P]
        found = self._continue(given)
        return ValidationSamples(
            sources=_strings(self._texts.decode(given)),
            references=_strings(self._texts.continuation(given, ragged_ids(rests).to_tensor())),
            hypotheses=_strings(found),
            source_tokens=[],
            target_tokens=[],
            alignments=[],
        )

    def _continuations(self, prompts: tf.Tensor) -> tf.Tensor:
        """Texts, string [B], that prompts [B, P] are continued by; each row has its own seed."""
        rows = tf.shape(prompts)[0]
        search = self._search
        temperature = 0.0 if search.kind == "greedy" else search.temperature
        draws = Draws(
            tf.fill([rows], tf.constant(temperature, tf.float32)),
            tf.fill([rows], search.top_k),
            tf.fill([rows], tf.constant(search.top_p, tf.float32)),
            search.seed + tf.range(rows),
        )
        found = self._model.generate(prompts, tf.fill([rows], _SAMPLE_WORDS), draws)
        return self._texts.continuation(prompts, found.ids[:, 0, :])


def _strings(texts: tf.Tensor) -> list[str]:
    return [text.decode("utf-8", "replace") for text in texts.numpy()]


def _table(by_unit: dict[str, dict[str, Any]]) -> rich.table.Table:
    table = rich.table.Table(title="Perplexity by unit", title_justify="left")
    table.add_column("a")
    for name in ("count", "perplexity", "bits"):
        table.add_column(name, justify="right")
    for unit, row in by_unit.items():
        table.add_row(unit, f"{row['count']:,}", f"{row['perplexity']:,.4g}", f"{row['bits']:.4f}")
    return table
