"""Dialogue, summaries and written answers: the model of translation over readers of their own."""

import io
import json
import pathlib
import random
import sys

import pytest
import rich.console
import tensorflow as tf
import tensorflow_text  # noqa: F401

from models.separators import QUESTION, SENTENCE
from pipeline.evaluate import evaluate
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.export import export
from pipeline.prepare.run import prepare
from pipeline.train.trainer import Trainer

ROOT = pathlib.Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "data"))

from build_dialogue_corpus import turns  # noqa: E402
from build_summary_corpus import summaries  # noqa: E402

SMALL = [
    "seed=2",
    "vocabulary.source_size=60",
    "model.embedding_size=8",
    "model.encoder.units=8",
    "model.decoder={units: 8}",
    "train.max_steps=4",
    "train.batch_tokens=400",
    "train.validate_every=4",
    "train.samples=1",
    "train.validation_sentences=8",
    "search={kind: greedy, max_length_factor: 0.1, max_length_extra: 3}",
    "export.warmup_requests=1",
    "cluster={workers: 1, running_mode: in_memory}",
]
WORDS = "the king speaks of a red house and many old trees near water".split()

PLAY = """\
First Citizen:
Before we go,
hear me speak.

ALL:
Speak!

Not a turn

Second Citizen:

First Citizen:
You are all resolved?
"""


def sentence(generator):
    return " ".join(generator.choices(WORDS, k=generator.randint(3, 8)))


def write_plays(path):
    generator = random.Random(3)
    blocks = "\n\n".join(f"Speaker:\n{sentence(generator)}\n" for _ in range(120))
    path.write_text("".join(f"{turn}\n" for turn in turns(blocks)))


def write_captions(path):
    generator = random.Random(4)
    captions = [
        {"id": number, "image_id": number // 5, "caption": sentence(generator)}
        for number in range(400)
    ]
    records = summaries({"annotations": captions})
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))


def write_stories(path):
    generator = random.Random(5)
    lines = []
    for _ in range(100):
        told = f"1 {sentence(generator)}\n2 {sentence(generator)}\n"
        lines.append(f"{told}3 Where ?\t{generator.choice(WORDS)}\t1\n")
    path.write_text("".join(lines))


CORPORA = {
    "dialogue": (write_plays, []),
    "summarisation": (write_captions, []),
    "babi": (
        write_stories,
        [
            "model.task=translation",
            "data.test=[]",
            "data.hold_out.test=0.1",
            "data.cleaning.max_length_ratio=100",
            "train.best_metric=accuracy",
            "export.max_source_length=12",
            "vocabulary={algorithm: word, source_size: 60, target_size: 60}",
        ],
    ),
}


def test_turns_of_plays_are_lines():
    assert list(turns(PLAY)) == [
        "Before we go, hear me speak.",
        "Speak!",
        "You are all resolved?",
    ]


def test_captions_of_a_photo_become_a_record():
    captions = [(9, 1, "third"), (4, 1, "first\n"), (5, 1, "a  second"), (6, 2, "alone")]
    document = {
        "annotations": [
            {"id": id, "image_id": image, "caption": caption} for id, image, caption in captions
        ]
    }
    assert list(summaries(document)) == [{"article": "a second\nthird", "summary": "first"}]


@pytest.fixture(scope="module", params=CORPORA)
def exported(request, tmp_path_factory):
    """(name, scores, signatures) of a shipped experiment, run on little."""
    name = request.param
    write, settings = CORPORA[name]
    folder = tmp_path_factory.mktemp(name)
    path = folder / "corpus"
    write(path)
    own = [f"workspace={folder}/run", f"data.train.0.path={path}", *SMALL, *settings]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLOOM_DATA", "none")
        patch.setenv("BABI_TASK", "none")
        experiment = load_experiment(ROOT / f"configs/{name}.yaml", own)
    workspace = workspace_of(experiment)
    console = rich.console.Console(file=io.StringIO(), width=100)
    prepare(experiment, workspace, console)
    Trainer(experiment, workspace).run()
    scores = evaluate(experiment, workspace, console)
    version = export(experiment, workspace, console)
    return name, scores, tf.saved_model.load(str(version)).signatures


def test_texts_with_many_parts_are_read_so_in_training_and_requests(exported):
    name, scores, signatures = exported
    assert scores["checkpoint_step"] == 4
    joined = f"the king speaks {SENTENCE} a red house {SENTENCE} of old trees"
    texts = [joined, joined.replace(f" {SENTENCE} ", "\n"), f"the king {QUESTION} where", "", "\n"]
    answer = signatures["align"](text=tf.constant(texts))
    tokens = [[piece.decode() for piece in row if piece] for row in answer["source_tokens"].numpy()]
    assert tokens[0].count(SENTENCE) == 2
    assert tokens[0] == tokens[1]
    assert (QUESTION in tokens[2]) == (name == "babi")
    if name == "babi":
        long = signatures["align"](text=tf.constant([f"{'the ' * 20}{QUESTION} where"]))
        tokens = [piece.decode() for piece in long["source_tokens"].numpy()[0]]
        assert tokens.count(QUESTION) == 1
        assert len(tokens) == 12 + 1
