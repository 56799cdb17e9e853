"""Every cell in every direction in every task: it learns, or says why it cannot."""

import keras
import numpy as np
import pydantic
import pytest
import tensorflow as tf

from models.cells.options import CELL_OPTIONS
from models.errors import UserError
from models.separators import QUESTION, SENTENCE
from models.special_ids import PAD_ID
from models.tokenizers import VOCABULARIES
from models.vocabulary_pieces import dump_pieces
from pipeline.experiment import METRICS, Experiment
from pipeline.prepare.sides import sides_of
from pipeline.tasks.members import TASKS
from pipeline.vocabularies import Vocabularies

SOURCES = {
    "translation": ["a b c", "a"],
    "language_model": ["", ""],
    "classification": [f"a b {SENTENCE} c", "a"],
    "tagging": ["a b c", "a"],
    "answering": [f"a b {SENTENCE} c {QUESTION} a", f"a {QUESTION} b"],
    "captioning": ["", ""],
    "visual_answering": ["a b c", "a"],
    "lip_reading": ["", ""],
    "frame_tagging": ["", ""],
}
TARGETS = {
    "translation": ["c b", "a"],
    "language_model": ["a b c", "b"],
    "tagging": ["c b a", "a"],
    "frame_tagging": ["c b", "a"],
}
DIRECTIONS = {
    "forward": {"bidirectional": False},
    "concatenated": {"bidirectional": True},
    "summed": {"bidirectional": True, "merge": "sum"},
}


# Sections that every experiment here is given, as far as its task reads them.
SIZES = {"encoder": {"units": 4}, "decoder": {"units": 6}}
SECTIONS = {
    "translation": ("encoder", "decoder"),
    "language_model": ("decoder",),
    "classification": ("encoder",),
    "tagging": ("encoder",),
    "answering": ("encoder",),
    "captioning": ("decoder",),
    "visual_answering": ("encoder",),
    "lip_reading": ("encoder", "decoder"),
    "frame_tagging": ("encoder",),
}
# Lengths of a step that are not the usual one: cells of a picture are compared with a final state
# of few units, which turns quickly where it is normalised.
STEPS = {"visual_answering": 0.001}
QUESTIONS = {"format": "documents", "path": "unused", "question_key": "question"}
CLIPS = ("lip_reading", "frame_tagging")
LEARNING = {"backbone": "tiny", "weights": None, "fine_tune": True}


def make_experiment(task, model, format="tsv"):
    sections: dict = {name: dict(SIZES[name]) for name in SECTIONS[task]}
    if task in ("translation", "captioning", "lip_reading"):
        sections["decoder"]["bridge"] = "zero"
    if task == "captioning":
        # The loss that is told leaves out what the regulariser adds to its gradient.
        sections["captioning"] = {"stochastic_weight": 0.0}
    given = {name: value for name, value in model.items() if name not in SIZES or name in sections}
    return Experiment.model_validate(
        {
            "name": "combination",
            "data": {
                "train": [
                    QUESTIONS
                    if task == "visual_answering"
                    else {"format": format, "path": "unused"}
                ],
                **({"pictures": LEARNING} if task in CLIPS else {}),
            },
            "vocabulary": {"algorithm": "word"},
            "model": {
                "task": task,
                "embedding_size": 4,
                "dropout": 0.0,
                **sections,
                **given,
            },
        }
    )


def make_task(experiment):
    """The task, with vocabularies of three words and the separators."""
    made = {
        name: VOCABULARIES[side.kind](dump_pieces(side.kind, [SENTENCE, QUESTION, *"abc"]))
        for name, side in sides_of(experiment).items()
    }
    vocabularies = Vocabularies(made.get("source"), made["target"])
    return TASKS[experiment.model.task](experiment, vocabularies)


def batch_of(task, name):
    """Padded inputs and labels, as the trainer is given them."""
    sources = tf.constant(SOURCES[name])
    targets = task.vocabularies.target.encode(tf.constant(TARGETS.get(name, ["a", "b"])))
    if name in ("language_model", "captioning", *CLIPS):
        ids = tf.RaggedTensor.from_row_splits(tf.zeros([0], tf.int32), [0, 0, 0])
    else:
        ids = task.source.encode(sources)
    if name in CLIPS:
        frames = tf.RaggedTensor.from_row_lengths(tf.range(3), [2, 1])
        pixels = tf.random.stateless_uniform([2, 2, 32, 32, 3], [1, 2], 0, 256, tf.int32)
        inputs, labels = task.mark(frames, targets, tf.cast(pixels, tf.uint8))
    elif name in ("captioning", "visual_answering"):
        grids = tf.random.stateless_normal([2, 2, 2, 1280], [1, 2])
        inputs, labels = task.mark(ids, targets, grids)
    elif name == "tagging":
        inputs, labels = task.mark(ids, targets, sources)
    else:
        inputs, labels = task.mark(ids, targets)
    dense = {
        key: each.to_tensor() if isinstance(each, tf.RaggedTensor) else each
        for key, each in inputs.items()
    }
    return dense, labels.to_tensor()


def learn(experiment):
    """Losses before and after a short step down the gradient of one batch."""
    keras.utils.set_random_seed(7)
    name = experiment.model.task
    task = make_task(experiment)
    model = task.build_model()
    inputs, labels = batch_of(task, name)
    losses = []
    for step in range(2):
        with tf.GradientTape() as tape:
            sums = model.loss_sums(inputs, labels, tf.constant([1, step]))
        gradients = tape.gradient(sums.loss, [each.value for each in model.trainable_variables])
        pairs = zip(gradients, model.trainable_variables, strict=True)
        kept = [(tf.convert_to_tensor(g), v) for g, v in pairs if g is not None]
        assert kept and all(np.isfinite(g.numpy()).all() for g, _ in kept)
        length = tf.linalg.global_norm([g for g, _ in kept])
        for gradient, variable in kept:
            variable.assign_sub(STEPS.get(name, 0.01) * gradient / length)
        losses.append(float(sums.loss))
    assert float(sums.tokens) == np.count_nonzero(labels.numpy() != PAD_ID)
    return losses


def test_every_task_is_walked():
    assert set(SOURCES) == set(TASKS) == set(METRICS)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("cell", CELL_OPTIONS)
def test_a_cell_learns_in_every_direction_and_task(cell, direction, task):
    if task in ("language_model", "captioning") and direction != "forward":
        pytest.skip("the task reads one way")
    model = {"cell": cell, "encoder": {"units": 4, **DIRECTIONS[direction]}}
    losses = learn(make_experiment(task, model))
    assert np.isfinite(losses).all() and losses[-1] < losses[0]


@pytest.mark.parametrize("cell", CELL_OPTIONS)
def test_a_cell_writes_answers_about_pictures(cell, monkeypatch):
    monkeypatch.setitem(SECTIONS, "visual_answering", ("encoder", "decoder"))
    monkeypatch.setitem(TARGETS, "visual_answering", ["c b", "a"])
    monkeypatch.setitem(SIZES, "decoder", {"units": 6, "bridge": "zero"})
    model = {"cell": cell, "visual_answering": {"form": "generator"}}
    losses = learn(make_experiment("visual_answering", model))
    assert np.isfinite(losses).all() and losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("task", "model"),
    [*((task, {}) for task in TASKS), ("translation", {"attention": {"kind": "hard"}})],
)
def test_a_row_of_pads_teaches_nothing(task, model):
    """Such as a worker is given whose readers have come to their ends before others."""
    made = make_task(make_experiment(task, model))
    network = made.build_model()
    inputs, _ = batch_of(made, task)
    # Pictures and frames of clips have a shape; all else has lengths.
    lengths = {name: each.shape.rank - 1 for name, each in inputs.items()}
    lengths.update(features=0, pixels=1)
    pads = {
        name: tf.zeros([1, *[1] * lengths[name], *each.shape[1 + lengths[name] :]])
        for name, each in inputs.items()
    }
    pads = {name: tf.cast(each, inputs[name].dtype) for name, each in pads.items()}
    before = network.get_weights()
    with tf.GradientTape() as tape:
        sums = network.loss_sums(pads, tf.zeros([1, 1], tf.int32), tf.constant([1, 0]))
    gradients = tape.gradient(sums.loss, [each.value for each in network.trainable_variables])
    assert float(sums.loss) == float(sums.tokens) == 0.0
    for gradient in gradients:
        assert gradient is None or not np.any(tf.convert_to_tensor(gradient).numpy())
    for found, wanted in zip(network.get_weights(), before, strict=True):
        np.testing.assert_array_equal(found, wanted)


REFUSED = [
    ("translation", {"cell": "lstm", "cell_options": {"projection_units": 2}}, "cell_options"),
    ("translation", {"encoder": {"bidirectional": False, "merge": "sum"}}, "merge"),
    ("translation", {"cell": "ntm", "decoder": {"units": 6, "bridge": "dense"}}, "bridge"),
    ("translation", {"cell": "ntm", "decoder": {"units": 6, "bridge": "copy"}}, "bridge"),
    ("translation", {"attention": {"score": "dot"}}, "attention.score"),
    ("translation", {"attention": {"score": "scaled_dot"}}, "attention.score"),
    ("translation", {"attention": {"score": "multi_head", "heads": 5}}, "heads"),
    ("translation", {"attention": {"score": "multi_head", "kind": "hard"}}, "multi_head"),
    ("translation", {"decoder": {"kind": "bahdanau", "input_feeding": True}}, "input_feeding"),
    (
        "translation",
        {"encoder": {"units": 3, "self_attention": {"layers": 1, "heads": 5}}},
        "heads",
    ),
    ("answering", {"attention": {"kind": "local_monotonic"}}, "local_monotonic"),
]


@pytest.mark.parametrize(("task", "model", "named"), REFUSED)
def test_a_combination_that_cannot_work_is_refused_by_its_key(task, model, named):
    with pytest.raises((UserError, pydantic.ValidationError), match=named):
        make_task(make_experiment(task, model)).build_model()
