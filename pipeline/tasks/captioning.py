"""Captioning: the features of a picture to a text."""

import dataclasses

import rich.console
import tensorflow as tf

from models.captioning import CaptioningModel
from models.sequence_model import SequenceModel
from models.tokenizers import with_begin, with_end
from models.vision.kinds import make_backbone
from pipeline.assembly import search_options
from pipeline.batches import Marked, Pairs
from pipeline.caption_scoring import score_captions
from pipeline.captioner import Captioner, Picture, attend, pictures_of
from pipeline.monitor.counting import counting
from pipeline.monitor.panel import ValidationSamples
from pipeline.scoring import tokenizer_for
from pipeline.tasks.contract import Evaluation, Judge, Task, Validation
from serving.services.captioning import CaptioningOptions, CaptioningService


class CaptioningTask(Task):
    """Features of pictures, which `prepare` computes, to captions, by `CaptioningModel`."""

    @property
    def asks(self) -> dict[str, bool]:
        """The pictures' features."""
        return {"pictures": True}

    def build_model(self) -> CaptioningModel:
        """The decoder over the grid."""
        options = self.experiment.model
        decoder = options.decoder.model_dump(include={"layers", "units", "residual", "bridge"})
        model = CaptioningModel(
            # Its weights make no difference to the size.
            make_backbone(self.experiment.data.pictures.backbone).feature_size,
            self.vocabularies.target.size,
            cell=options.cell,
            embedding_size=options.embedding_size,
            dropout=options.dropout,
            kind=options.captioning.decoder,
            decoder=decoder,
            attention=options.attention.model_dump(),
            stochastic_weight=options.captioning.stochastic_weight,
            initializer_range=options.initializer_range,
            cell_options=options.cell_options.model_dump(),
            variational_dropout=options.variational_dropout.model_dump(),
            name=self.experiment.export.model_name,
        )
        model.build()
        return model

    def mark(
        self,
        source: tf.RaggedTensor,
        target: tf.RaggedTensor,
        features: tf.RaggedTensor | None = None,
        shapes: tf.RaggedTensor | None = None,
    ) -> Marked:
        """Grids, which are all of one shape, and the caption as it is read and predicted."""
        assert features is not None and shapes is not None
        shape = tf.concat([[target.nrows()], shapes.flat_values[:3]], 0)  # [4]
        grids = tf.ensure_shape(tf.reshape(features.flat_values, shape), [None] * 4)
        ragged = tf.RaggedTensor.from_tensor(grids, ragged_rank=1)  # [B, (R), C, F]
        return {"features": ragged, "target": with_begin(target)}, with_end(target)

    def judge(self, model: SequenceModel) -> "CaptioningJudge":
        """By captions: greedy ones in training, by the experiment's search in evaluation."""
        assert isinstance(model, CaptioningModel)
        return CaptioningJudge(self, model)

    def service(self, model: SequenceModel) -> CaptioningService:
        """Captions of files, and where each word looks."""
        assert isinstance(model, CaptioningModel)
        pictures = self.experiment.data.pictures
        backbone = make_backbone(pictures.backbone, pictures.weights)
        backbone.trainable = False
        backbone.build((None, backbone.picture_size, backbone.picture_size, 3))
        options = CaptioningOptions(search_options(self.experiment), pictures.max_pixels)
        return CaptioningService(model, backbone, self.vocabularies.target, options)


class CaptioningJudge(Judge):
    """BLEU, chrF, ROUGE-L and CIDEr against all captions of a picture."""

    def __init__(self, task: CaptioningTask, model: CaptioningModel):
        self._task = task
        self._model = model
        self._tokenize = tokenizer_for(task.experiment.data.target_language)
        self._captioners = {
            kind: Captioner(
                model,
                task.vocabularies.target,
                search_options(task.experiment, **({} if kind == "final" else {"kind": kind})),
                task.experiment.search.batch_size,
            )
            for kind in ("greedy", "final")
        }

    def validate(self, pairs: Pairs, samples: int) -> Validation:
        """Caption greedily."""
        pictures = pictures_of(pairs)
        found = self._captioners["greedy"](pictures)
        scores = score_captions(found, [each.references for each in pictures], self._tokenize)
        metrics = {
            "cider": scores.cider_d.value,
            "bleu": scores.bleu[-1].value,
            "chrf": scores.chrf.value,
        }
        return Validation(metrics, self._samples(pictures[:samples], found[:samples]))

    def evaluate(self, pairs: Pairs, console: rich.console.Console) -> Evaluation:
        """Caption with the experiment's search."""
        pictures = pictures_of(pairs)
        with counting(console, "captioning", len(pictures), "pictures") as advance:
            found = self._captioners["final"](pictures, advance)
        scores = score_captions(found, [each.references for each in pictures], self._tokenize)
        scores.table(console)
        search = self._task.experiment.search.model_dump()
        return Evaluation(
            {"search": search, **dataclasses.asdict(scores)},
            {
                "source": [each.name for each in pictures],
                "reference": ["\t".join(each.references) for each in pictures],
                "hypothesis": found,
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
            source_tokens=[each[0] for each in looked],
            target_tokens=[each[1] for each in looked],
            alignments=[each[2] for each in looked],
        )
