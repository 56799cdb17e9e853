"""Captioning: the features of a picture to a text."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import rich.console
import tensorflow as tf

from models.captioning import CaptioningEnsemble, CaptioningModel
from models.encoder_decoder import EncoderDecoder
from models.sequence_model import SequenceModel
from models.tokenizers import with_begin, with_end
from models.vision.kinds import make_backbone
from pipeline.assembly import search_options
from pipeline.batches import Marked, Pairs
from pipeline.caption_scoring import score_captions
from pipeline.captioner import AnyCaptioner, Captioner, Picture, attend, pictures_of
from pipeline.monitor.panel import ValidationSamples
from pipeline.questions import Questions
from pipeline.scoring import tokenizer_for
from pipeline.tasks.contract import Evaluation, Judge, Task, Validation
from serving.services.captioning import CaptioningOptions, CaptioningService


class CaptioningTask(Task):
    """Features of pictures, which `prepare` computes, to captions, by `CaptioningModel`."""

    @property
    def asks(self) -> dict[str, Any]:
        """The pictures' features, or their pixels where the network learns too."""
        return {"pictures": "pixels" if self._fine_tunes else "features"}

    @property
    def _fine_tunes(self) -> bool:
        return self.experiment.data.pictures.fine_tune

    def build_model(self) -> CaptioningModel:
        """The decoder over the grid, upon the network where that learns too."""
        options = self.experiment.model
        pictures = self.experiment.data.pictures
        # Where it makes features in `prepare`, its weights make no difference to their size.
        weights = pictures.weights if self._fine_tunes else None
        backbone = make_backbone(pictures.backbone, weights)
        decoder = options.decoder.model_dump(include={"layers", "units", "residual", "bridge"})
        model = CaptioningModel(
            backbone.feature_size,
            self.vocabularies.target.size,
            kind=options.captioning.decoder,
            decoder=decoder,
            attention=options.attention.model_dump(),
            stochastic_weight=options.captioning.stochastic_weight,
            **options.of_all_networks,
            backbone=backbone if self._fine_tunes else None,
            name=self.experiment.export.model_name,
        )
        model.build()
        return model

    def mark(
        self,
        source: tf.RaggedTensor,
        target: tf.RaggedTensor,
        pictures: tf.Tensor | None = None,
    ) -> Marked:
        """The pictures, [B, ...], and the caption as it is read and predicted."""
        assert pictures is not None
        return {self.asks["pictures"]: pictures, "target": with_begin(target)}, with_end(target)

    def joined(self, members: Sequence[EncoderDecoder]) -> CaptioningEnsemble:
        """Captioners that read the same features."""
        return CaptioningEnsemble(members)

    def judge(self, model: SequenceModel) -> "CaptioningJudge":
        """By captions: greedy ones in training, by the experiment's search in evaluation."""
        assert isinstance(model, AnyCaptioner)
        return CaptioningJudge(self, model)

    def service(self, model: SequenceModel) -> CaptioningService:
        """Captions of files, and where each word looks."""
        assert isinstance(model, AnyCaptioner)
        pictures = self.experiment.data.pictures
        own = model.backbone if isinstance(model, CaptioningModel) else None
        backbone = own or make_backbone(pictures.backbone, pictures.weights)
        backbone.trainable = False
        if not backbone.built:
            backbone.build((None, backbone.picture_size, backbone.picture_size, 3))
        options = CaptioningOptions(search_options(self.experiment), pictures.max_pixels)
        return CaptioningService(model, backbone, self.vocabularies.target, options)


class CaptioningJudge(Judge):
    """BLEU, chrF, ROUGE-L and CIDEr against all captions of a picture."""

    def __init__(self, task: CaptioningTask, model: AnyCaptioner):
        self._task = task
        self._model = model
        self._tokenize = tokenizer_for(task.experiment.data.target_language)
        given = (task.experiment, model, task.vocabularies.target)
        self._greedy, self._final = Captioner.of(*given, kind="greedy"), Captioner.of(*given)

    def validation_questions(self, pairs: Pairs) -> Questions:
        """Greedy captions of the different pictures."""
        return self._greedy.questions(pictures_of(pairs))

    def questions(self, pairs: Pairs) -> Questions:
        """Captions by the experiment's search."""
        return self._final.questions(pictures_of(pairs))

    def validate(self, pairs: Pairs, answers: list[str], samples: int) -> Validation:
        """CIDEr, BLEU and chrF."""
        pictures = pictures_of(pairs)
        scores = score_captions(answers, [each.references for each in pictures], self._tokenize)
        metrics = {
            "cider": scores.cider_d.value,
            "bleu": scores.bleu[-1].value,
            "chrf": scores.chrf.value,
        }
        return Validation(metrics, self._samples(pictures[:samples], answers[:samples]))

    def evaluate(
        self, pairs: Pairs, answers: list[str], console: rich.console.Console
    ) -> Evaluation:
        """All scores."""
        pictures = pictures_of(pairs)
        scores = score_captions(answers, [each.references for each in pictures], self._tokenize)
        scores.table(console)
        search = self._task.experiment.search.model_dump()
        return Evaluation(
            {"search": search, **dataclasses.asdict(scores)},
            {
                "source": [each.name for each in pictures],
                "reference": ["\t".join(each.references) for each in pictures],
                "hypothesis": answers,
            },
        )

    def _samples(self, pictures: list[Picture], texts: list[str]) -> ValidationSamples | None:
        if not pictures:
            return None
        looked = attend(self._model, self._task.vocabularies.target, pictures, texts)
        return ValidationSamples(
            sources=[each.name for each in pictures],
            references=[each.references[0] for each in pictures],
            hypotheses=texts,
            source_tokens=[[] for _ in looked],
            target_tokens=[pieces for pieces, _ in looked],
            alignments=[maps for _, maps in looked],
            pictures=[each.stored.read("pixels") for each in pictures],
        )
