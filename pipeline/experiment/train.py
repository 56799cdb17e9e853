"""The section train: optimisation, validation and checkpoints."""

from typing import Literal

import pydantic
from pydantic import Field, NonNegativeFloat, PositiveFloat

from pipeline.experiment.section import (
    Fraction,
    NonNegativeInt,
    PositiveInt,
    Section,
)


class LossOptions(Section):
    """The training loss. Validation and serving always use the full softmax."""

    kind: Literal["full", "sampled", "nce"] = "full"
    label_smoothing: Fraction = Field(0.0, description="Of the full softmax.")
    noise_words: PositiveInt = Field(256, description="Noise words a batch (sampled, nce).")
    noise: Literal["unigram", "log_uniform"] = Field(
        "unigram",
        description="Distribution of the noise: by counts, or by ids sorted by frequency.",
    )
    distortion: float = Field(
        0.75, ge=0.0, le=1.0, description="Power of the counts that unigram noise is drawn from."
    )


class ScheduleOptions(Section):
    """Learning rate over steps: linear warm-up, then a decay."""

    decay: Literal["constant", "exponential", "cosine", "inverse_sqrt"] = "constant"
    warmup_steps: NonNegativeInt = 0
    decay_start: NonNegativeInt = Field(0, description="First step of exponential or cosine.")
    decay_steps: PositiveInt = Field(10_000, description="Of one decay_rate, or of the cosine.")
    decay_rate: PositiveFloat = Field(0.5, description="Factor of the exponential decay.")
    minimum: NonNegativeFloat = Field(0.0, description="The rate never falls below it.")


class ClipOptions(Section):
    """Gradient clipping, after the gradients of all replicas are summed."""

    kind: Literal["none", "value", "norm", "global_norm"] = "global_norm"
    threshold: PositiveFloat = 5.0


class EarlyStopping(Section):
    """Stop when the best metric has not improved."""

    patience: NonNegativeInt = Field(0, description="Validations without gain; 0 never stops.")
    minimum_gain: NonNegativeFloat = Field(0.0, description="A smaller gain is none.")


class TruncatedBptt(Section):
    """Reading a corpus as one stream, segment by segment, with the state carried along."""

    segment_length: PositiveInt | None = Field(
        None, description="Pieces gradients go back; null reads each line by itself."
    )
    restarts: Fraction = Field(
        0.02, description="Share of rows that a segment of training starts anew, as texts do."
    )


class ScheduledSamplingOptions(Section):
    """Reading the model's own words while training (Bengio et al. 2015)."""

    decay: Literal["none", "linear", "exponential", "inverse_sigmoid"] = Field(
        "none", description="How the probability of the right word falls from 1."
    )
    decay_start: NonNegativeInt = Field(0, description="First step of the decay.")
    decay_steps: PositiveInt = Field(
        10_000, description="Of the whole line, or of one decay_rate; k of the inverse sigmoid."
    )
    decay_rate: float = Field(0.5, gt=0.0, lt=1.0, description="Factor of the exponential decay.")
    minimum: float = Field(0.0, ge=0.0, le=1.0, description="The probability never falls below it.")
    draw: Literal["sample", "likeliest"] = Field("sample", description="Which word is its own.")


class CurriculumOptions(Section):
    """Short pairs first."""

    growth: Literal["none", "linear", "root"] = Field(
        "none", description="How the share of the range of lengths grows that is admitted."
    )
    start: float = Field(0.25, gt=0.0, le=1.0, description="Share admitted in the first epoch.")
    epochs: PositiveInt = Field(4, description="Epochs until everything is admitted.")


class SelfPacedOptions(Section):
    """Easy examples first: those whose loss is below a threshold (Kumar et al. 2010)."""

    kind: Literal["none", "hard", "soft"] = Field(
        "none", description="hard counts an example or not; soft the less the higher it is."
    )
    threshold: PositiveFloat = Field(6.0, description="Of the first epoch, in nats a word.")
    growth: float = Field(1.3, ge=1.0, description="Factor of the threshold an epoch.")


class GradientFlowOptions(Section):
    """Norms of the recurrent layers' Jacobians, measured at each validation."""

    sentences: NonNegativeInt = Field(0, description="Validation sentences measured; 0 is off.")
    longest: PositiveInt = Field(50, description="Largest distance in steps.")


class TrainSection(Section):
    """Optimisation, validation and checkpoints."""

    max_steps: PositiveInt = Field(20_000, description="Steps at most.")
    max_epochs: PositiveInt | None = Field(None, description="Epochs at most; no limit if null.")
    batch_tokens: PositiveInt = Field(
        2048, description="Rows times the longer side, pads included, at most."
    )
    accumulate_steps: PositiveInt = Field(
        1, description="Batches whose gradients make one step, as if they were one batch."
    )
    readers: PositiveInt = Field(
        1, description="Readers, each of record files of its own, that share each batch."
    )
    shuffle_pool: PositiveInt = Field(65_536, description="Pairs sorted into batches at a time.")
    optimizer: Literal["adam", "lazy_adam", "sgd"] = Field(
        "adam",
        description="lazy_adam leaves rows alone that are not in the batch, stale moments and all.",
    )
    learning_rate: PositiveFloat = 1e-3
    fine_tune_rate: PositiveFloat = Field(
        0.1, description="Share of the learning rate that data.pictures.fine_tune trains by."
    )
    schedule: ScheduleOptions = ScheduleOptions()
    clip: ClipOptions = ClipOptions()
    loss: LossOptions = LossOptions()
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    jit_compile: bool = Field(False, description="Compile the step by XLA; pads to few shapes.")
    log_every: PositiveInt = Field(50, description="Steps between two lines and two scalars.")
    validate_every: PositiveInt = Field(1000, description="Steps between two validations.")
    validation_sentences: PositiveInt = Field(500, description="Sentences translated for BLEU.")
    samples: NonNegativeInt = Field(5, description="Translations and attention pictures shown.")
    checkpoint_every: PositiveInt = Field(1000, description="Steps between two checkpoints.")
    keep_checkpoints: PositiveInt = 3
    best_metric: Literal["bleu", "chrf", "cider", "loss", "perplexity", "accuracy"] | None = Field(
        None, description="Chooses the best model; the task's own, listed first, if null."
    )
    early_stopping: EarlyStopping = EarlyStopping()
    truncated_bptt: TruncatedBptt = TruncatedBptt()
    scheduled_sampling: ScheduledSamplingOptions = ScheduledSamplingOptions()
    curriculum: CurriculumOptions = CurriculumOptions()
    self_paced: SelfPacedOptions = SelfPacedOptions()
    gradient_flow: GradientFlowOptions = GradientFlowOptions()

    @pydantic.model_validator(mode="after")
    def _sampled_softmax_without_xla(self):
        if self.jit_compile and self.loss.kind == "sampled":
            raise ValueError(
                "XLA cannot compile the loss 'sampled'; set jit_compile to false, or loss.kind to "
                "nce or full"
            )
        return self
