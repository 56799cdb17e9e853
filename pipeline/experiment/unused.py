"""Keys that nothing would read: an experiment that sets one is refused.

A key counts as set if it differs from its default, so that an experiment with every key, as it
is recorded with a run, can be read again.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pydantic
from pydantic_core import InitErrorDetails, PydanticCustomError

from pipeline.experiment.section import Section
from pipeline.experiment.task_groups import (
    ALIGNED_TASKS,
    PICTURE_TASKS,
    TASKS_WITHOUT_SOURCE_IDS,
)

Place = tuple[str, ...]


class Use(NamedTuple):
    """When keys are read: if a key of `on` has one of the values `only`, or none of `never`."""

    keys: tuple[str, ...]  # dotted; of a section all keys are meant
    on: str | tuple[str, ...]  # dotted
    only: tuple[Any, ...] = ()
    never: tuple[Any, ...] = ()
    of_task: str | None = None  # the rule is of this task alone
    anyway: tuple[Any, ...] = ()  # values that say what is done without the key being read

    @property
    def decided_by(self) -> tuple[str, ...]:
        """The keys of `on`, one or many."""
        return (self.on,) if isinstance(self.on, str) else self.on

    def reads(self, value: Any) -> bool:
        """Whether a key of `on` with this value has the keys read."""
        return value in self.only if self.only else value not in self.never


_TASK = "model.task"
_ENCODING = (
    "translation",
    "classification",
    "tagging",
    "answering",
    "visual_answering",
    "lip_reading",
    "frame_tagging",
)
# Tasks whose answers a decoder writes; visual answering does so in one of its forms.
_WRITING = ("translation", "captioning", "visual_answering", "lip_reading")
_PREDICTING = ("translation", "language_model", *_WRITING[1:])
_SENTENCEPIECE = tuple(
    f"vocabulary.{key}" for key in ("character_coverage", "byte_fallback", "normalization")
)
_SAMPLED = ("search.temperature", "search.seed")
_DRAWN = (*_SAMPLED, "search.top_k", "search.top_p")
_FOUND = (
    "search.beam_size",
    "search.length_penalty",
    "search.no_repeat_ngram_size",
    "search.min_length",
    "search.max_length_extra",
)

USES = (
    # Sections and keys of tasks.
    Use(("model.encoder",), _TASK, only=_ENCODING),
    Use(("model.decoder",), _TASK, only=_PREDICTING),
    Use(
        ("model.decoder.kind", "model.decoder.input_feeding"),
        _TASK,
        only=("translation", "visual_answering", "lip_reading"),
    ),
    Use(("model.decoder.bridge",), _TASK, only=_WRITING),
    Use(
        ("model.attention",),
        _TASK,
        only=("translation", "answering", "captioning", "visual_answering", "lip_reading"),
    ),
    Use(("data.pictures",), _TASK, only=PICTURE_TASKS),
    Use(("model.captioning",), _TASK, only=("captioning",)),
    Use(("model.visual_answering",), _TASK, only=("visual_answering",)),
    Use(("model.answering",), _TASK, only=("answering",)),
    Use(("model.language_model",), _TASK, only=("language_model",)),
    Use(("model.classification",), _TASK, only=("classification",)),
    Use(("model.tagging",), _TASK, only=("tagging",)),
    Use(_FOUND, _TASK, only=_WRITING),
    Use(
        (
            "search.coverage_penalty",
            "search.max_length_factor",
            "export.nbest",
            "data.cleaning.max_length_ratio",
        ),
        _TASK,
        only=("translation",),
    ),
    Use(("search.ensemble",), _TASK, only=("translation", "captioning")),
    Use(
        ("search.kind", *_DRAWN),
        _TASK,
        only=_PREDICTING,
    ),
    Use(("export.max_tokens",), _TASK, only=("language_model",)),
    Use(("data.cleaning.max_source_length",), _TASK, never=("language_model", "captioning")),
    Use(
        ("data.cleaning.drop_identical", "vocabulary.source_size"),
        _TASK,
        never=TASKS_WITHOUT_SOURCE_IDS,
    ),
    Use(("export.max_source_length",), _TASK, never=("captioning",)),
    Use(("vocabulary.target_size",), _TASK, only=_PREDICTING),
    Use(_SENTENCEPIECE, _TASK, never=ALIGNED_TASKS),
    # A tag belongs to a word, or is one.
    Use(("vocabulary.algorithm",), _TASK, never=ALIGNED_TASKS, anyway=("word",)),
    # Keys of a kind of something.
    Use(("data.hold_out.side",), ("data.hold_out.valid", "data.hold_out.test"), never=(0.0,)),
    Use(("data.hold_out.side",), "data.order", only=("shuffled",)),
    Use(
        ("model.attention", "model.captioning.stochastic_weight"),
        "model.captioning.decoder",
        only=("gated",),
    ),
    Use(
        ("model.decoder", "vocabulary.target_size", *_FOUND, "search.kind", *_DRAWN),
        "model.visual_answering.form",
        only=("generator",),
        of_task="visual_answering",
    ),
    Use(("model.visual_answering.hops",), "model.visual_answering.form", only=("classifier",)),
    Use(("model.attention.heads",), "model.attention.score", only=("multi_head",)),
    Use(
        ("model.attention.units",),
        "model.attention.score",
        only=("concat", "additive", "multi_head"),
    ),
    Use(
        ("model.attention.window",),
        "model.attention.kind",
        only=("local_monotonic", "local_predictive"),
    ),
    Use(
        tuple(
            f"model.attention.{key}"
            for key in ("baseline_decay", "entropy_weight", "reinforce_weight")
        ),
        "model.attention.kind",
        only=("hard",),
    ),
    Use(("model.encoder.self_attention.heads",), "model.encoder.self_attention.layers", never=(0,)),
    Use(("model.decoder.input_feeding",), "model.decoder.kind", only=("luong",)),
    Use(
        ("model.classification.attention_units",),
        "model.classification.pooling",
        only=("attention", "hierarchical"),
    ),
    Use(
        tuple(
            f"model.tagging.{key}"
            for key in ("character_embedding_size", "character_units", "longest_spelling")
        ),
        "model.tagging.characters",
        never=("none",),
    ),
    Use(("model.tagging.character_window",), "model.tagging.characters", only=("cnn",)),
    Use(("model.language_model.window",), "model.language_model.architecture", only=("window",)),
    Use(("model.cell",), "model.language_model.architecture", only=("recurrent",)),
    Use(_SENTENCEPIECE, "vocabulary.algorithm", only=("unigram", "bpe")),
    Use(("vocabulary.target_size",), "vocabulary.shared", only=(False,)),
    # The signature `sample` truncates whatever the kind, but brings its own temperature and seed.
    Use(("search.beam_size",), "search.kind", only=("beam",)),
    Use(_SAMPLED, "search.kind", only=("sampling",), of_task="translation"),
    Use(_DRAWN, "search.kind", only=("sampling",), of_task="captioning"),
    Use(_DRAWN, "search.kind", only=("sampling",), of_task="lip_reading"),
    Use(_DRAWN, "search.kind", only=("sampling",), of_task="visual_answering"),
    Use(_DRAWN, "search.kind", never=("greedy",), of_task="language_model"),
    # Keys of a way to train.
    Use(
        ("train.schedule.decay_start", "train.schedule.decay_steps"),
        "train.schedule.decay",
        only=("exponential", "cosine"),
    ),
    Use(("train.schedule.decay_rate",), "train.schedule.decay", only=("exponential",)),
    Use(("train.fine_tune_rate",), "data.pictures.fine_tune", only=(True,)),
    Use(("train.clip.threshold",), "train.clip.kind", never=("none",)),
    Use(("train.loss.label_smoothing",), "train.loss.kind", only=("full",)),
    Use(
        ("train.loss.noise_words", "train.loss.noise", "train.loss.distortion"),
        "train.loss.kind",
        only=("sampled", "nce"),
    ),
    Use(("train.loss.distortion",), "train.loss.noise", only=("unigram",)),
    Use(("train.truncated_bptt.restarts",), "train.truncated_bptt.segment_length", never=(None,)),
    # A stream is read by one.
    Use(("train.readers",), "train.truncated_bptt.segment_length", only=(None,)),
    Use(("train.scheduled_sampling",), "train.scheduled_sampling.decay", never=("none",)),
    Use(
        ("train.scheduled_sampling.decay_rate",),
        "train.scheduled_sampling.decay",
        only=("exponential",),
    ),
    Use(("train.curriculum",), "train.curriculum.growth", never=("none",)),
    Use(("train.self_paced",), "train.self_paced.kind", never=("none",)),
    Use(("train.gradient_flow.longest",), "train.gradient_flow.sentences", never=(0,)),
    # Keys of a machine that Beam runs on by itself, and of an array of such.
    Use(
        ("cluster.running_mode", "cluster.workers"),
        "cluster.runner",
        only=("local", "slurm"),
    ),
    Use(("cluster.array_jobs",), "cluster.runner", only=("slurm",)),
    Use(("cluster.beam_options",), "cluster.runner", never=("slurm",)),
    Use(("cluster.workers",), "cluster.running_mode", never=("in_memory",), anyway=(1,)),
)


def refuse_unused(experiment: Section) -> None:
    """Refuse keys that nothing reads.

    Args:
        experiment: A whole experiment.

    Raises:
        pydantic.ValidationError: With a mistake for each of them, at its place.
    """
    mistakes: dict[Place, InitErrorDetails] = {}
    task = _value(experiment, _TASK)
    for use in USES:
        values = {key: _value(experiment, key) for key in use.decided_by}
        if any(map(use.reads, values.values())) or use.of_task not in (None, task):
            continue
        for place, given in _set_keys(experiment, use.keys):
            if ".".join(place) in values or place in mistakes or given in use.anyway:
                continue
            mistakes[place] = _mistake(place, given, use, values)
    if mistakes:
        raise pydantic.ValidationError.from_exception_data("Experiment", list(mistakes.values()))


def _mistake(place: Place, given: Any, use: Use, values: dict[str, Any]) -> InitErrorDetails:
    takers = " or ".join(map(repr, use.only))
    reason = f"only {takers} would have it read" if takers else "with that it is not read"
    found = " and ".join(f"{key} is {value!r}" for key, value in values.items())
    told = f"{found}, and {reason}; remove the key, or change {' or '.join(values)}"
    # Braces in a text would be taken for fields of the message.
    error = PydanticCustomError("unused_key", "{told}", {"told": told})
    return InitErrorDetails(type=error, loc=place, input=given)


def _set_keys(experiment: Section, keys: tuple[str, ...]) -> Iterator[tuple[Place, Any]]:
    """Places and values of the keys that differ from their defaults."""
    for key in keys:
        *path, name = key.split(".")
        yield from _differing(_at(experiment, path), name, tuple(path))


def _differing(section: Section, name: str, path: Place) -> Iterator[tuple[Place, Any]]:
    value = getattr(section, name)
    if isinstance(value, Section):
        for inner in type(value).model_fields:
            yield from _differing(value, inner, (*path, name))
    elif value != type(section).model_fields[name].default:
        yield (*path, name), value


def _value(experiment: Section, key: str) -> Any:
    *path, name = key.split(".")
    return getattr(_at(experiment, path), name)


def _at(section: Any, path: list[str]) -> Any:
    for name in path:
        section = getattr(section, name)
    return section
