"""Translation, and whatever else turns one sequence into another."""

import dataclasses

import rich.console
import tensorflow as tf

from models.encoder_decoder import EncoderDecoder
from models.sequence_model import SequenceModel
from models.tokenizers import TextVocabulary, with_begin, with_end
from models.translation import TranslationModel
from pipeline.assembly import search_options
from pipeline.batches import Marked, Pairs
from pipeline.monitor.panel import ValidationSamples
from pipeline.prepare.sides import sides_of
from pipeline.questions import Questions
from pipeline.scoring import bleu_and_chrf, score_translations, tokenizer_for
from pipeline.tasks.contract import Evaluation, Judge, Task, Validation
from pipeline.translator import Translator, align
from serving.services.translation import TranslationOptions, TranslationService


class TranslationTask(Task):
    """Source text to target text, by `TranslationModel`."""

    def build_model(self) -> TranslationModel:
        """The encoder–decoder."""
        options = self.experiment.model
        model = TranslationModel(
            self.source.size,
            self.vocabularies.target.size,
            encoder=options.encoder.model_dump(),
            decoder=options.decoder.model_dump(),
            attention=options.attention.model_dump(),
            **options.of_all_networks,
            name=self.experiment.export.model_name,
        )
        model.build()
        return model

    @property
    def source(self) -> TextVocabulary:
        """Vocabulary of the source."""
        assert self.vocabularies.source is not None
        return self.vocabularies.source

    def mark(self, source: tf.RaggedTensor, target: tf.RaggedTensor) -> Marked:
        """The target, begun, as the decoder reads it, and ended, as it is to be predicted."""
        return {"source": with_end(source), "target": with_begin(target)}, with_end(target)

    def judge(self, model: SequenceModel) -> "TranslationJudge":
        """By translating: greedily in training, with the experiment's search in evaluation."""
        assert isinstance(model, EncoderDecoder)
        return TranslationJudge(self, model)

    def service(self, model: SequenceModel) -> TranslationService:
        """The signatures of translation."""
        assert isinstance(model, EncoderDecoder)
        options = TranslationOptions(
            search=search_options(self.experiment),
            nbest=self.experiment.export.nbest,
            max_source_length=self.experiment.export.max_source_length,
            separators=sides_of(self.experiment)["source"].separators,
        )
        return TranslationService(model, self.source, self.vocabularies.target, options)


class TranslationJudge(Judge):
    """BLEU, chrF and TER against references."""

    def __init__(self, task: TranslationTask, model: EncoderDecoder):
        self._model = model
        self._task = task
        self._tokenize = tokenizer_for(task.experiment.data.target_language)
        given = (task.experiment, model, task.vocabularies.target)
        self._greedy, self._final = Translator.of(*given, kind="greedy"), Translator.of(*given)

    def validation_questions(self, pairs: Pairs) -> Questions:
        """Greedy translations."""
        return self._greedy.questions(pairs.source_ids)

    def questions(self, pairs: Pairs) -> Questions:
        """Translations by the experiment's search."""
        return self._final.questions(pairs.source_ids)

    def validate(self, pairs: Pairs, answers: list[str], samples: int) -> Validation:
        """BLEU and chrF."""
        metrics = bleu_and_chrf(answers, pairs.targets, self._tokenize)
        return Validation(metrics, self._samples(pairs, answers, samples))

    def evaluate(
        self, pairs: Pairs, answers: list[str], console: rich.console.Console
    ) -> Evaluation:
        """All scores, and BLEU by length."""
        lengths = [len(each) for each in pairs.source_ids]
        scores = score_translations(answers, pairs.targets, lengths, self._tokenize)
        scores.table(console)
        search = self._task.experiment.search.model_dump()
        return Evaluation(
            {"search": search, **dataclasses.asdict(scores)},
            {"source": pairs.sources, "reference": pairs.targets, "hypothesis": answers},
        )

    def _samples(self, pairs: Pairs, hypotheses: list[str], count: int) -> ValidationSamples | None:
        if not count:
            return None
        aligned = align(
            self._model,
            self._task.source,
            self._task.vocabularies.target,
            pairs.source_ids[:count],
            hypotheses[:count],
        )
        return ValidationSamples(
            sources=pairs.sources[:count],
            references=pairs.targets[:count],
            hypotheses=hypotheses[:count],
            source_tokens=[each[0] for each in aligned],
            target_tokens=[each[1] for each in aligned],
            alignments=[each[2] for each in aligned],
        )
