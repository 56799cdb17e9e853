"""Tiny corpora with tags and genres, and the road from them to a served answer."""

import io
import random

import rich.console
import tensorflow as tf

from pipeline.evaluate import evaluate
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.export import export
from pipeline.prepare.run import prepare
from pipeline.questions import answer_together
from pipeline.train.replicas import Cluster, Replicas
from pipeline.train.trainer import Trainer

NOUNS = ["sun", "moon", "star", "rain", "wind", "snow"]
VERBS = ["rises", "falls", "shines", "fades"]
# A word of each genre, in one of its sentences.
GENRES = {"weather": "forecast", "letter": "dear", "review": "stars"}

EXPERIMENT = """\
name: tiny
workspace: {folder}/run
seed: 4
data:
  train: [{{format: conllu, path: {folder}/train.conllu{keys}}}]
  valid: [{{format: conllu, path: {folder}/valid.conllu{keys}}}]
  test: [{{format: conllu, path: {folder}/test.conllu{keys}}}]
  cleaning: {{drop_duplicates: false}}
  shards: 1
vocabulary: {{source_size: 18, algorithm: word}}
model:
  task: {task}
  cell: gru
  embedding_size: 12
  dropout: 0.1
  initializer_range: 0.3
  encoder: {{units: 12}}
{model}
train:
  max_steps: 120
  batch_tokens: 256
  learning_rate: 0.02
  log_every: 20
  validate_every: 60
  samples: 2
  checkpoint_every: 60
export: {{model_name: {task}, warmup_requests: 2}}
cluster: {{workers: 1, running_mode: in_memory}}
"""


def sentence(generator):
    """Words and tags; nouns that rarely come are spelled with a capital, and so is no other."""
    words = []
    for _ in range(generator.randint(1, 4)):
        rare = "".join(generator.choices("abcdefgh", k=5)).capitalize()
        words.append((generator.choice([*NOUNS, rare]), "NOUN"))
        words.append((generator.choice(VERBS), "VERB"))
    return words


def document(generator, number):
    """A document of a genre, as CoNLL-U."""
    genre = generator.choice(list(GENRES))
    lines = [f"# newdoc id = {genre}-{number}"]
    sentences = [sentence(generator) for _ in range(generator.randint(1, 4))]
    generator.choice(sentences).insert(0, (GENRES[genre], "NOUN"))
    for words in sentences:
        for place, (word, tag) in enumerate(words, start=1):
            lines.append(f"{place}\t{word}\t_\t{tag}\t_\t_\t0\t_\t_\t_")
        lines.append("")
    return "\n".join([*lines, ""])


def write_corpus(folder):
    """Splits of the corpus."""
    generator = random.Random(3)
    for split, count in (("train", 150), ("valid", 15), ("test", 15)):
        documents = (document(generator, number) for number in range(count))
        (folder / f"{split}.conllu").write_text("".join(documents))


# What only one of the tasks reads.
_MODELS = {
    "classification": "",
    "tagging": (
        "  tagging: {characters: cnn, character_units: 8, character_embedding_size: 6, "
        "word_dropout: 0.1}"
    ),
}


def walk(folder, task, keys, *overrides):
    """Prepare, train, evaluate and export; the experiment, its workspace and what was printed."""
    write_corpus(folder)
    path = folder / "tiny.yaml"
    path.write_text(EXPERIMENT.format(folder=folder, task=task, keys=keys, model=_MODELS[task]))
    experiment = load_experiment(path, overrides)
    workspace = workspace_of(experiment)
    console = rich.console.Console(file=io.StringIO(), width=120)
    prepare(experiment, workspace, console)
    Trainer(experiment, workspace).run()
    evaluate(experiment, workspace, console)
    export(experiment, workspace, console)
    return experiment, workspace, console.file.getvalue()


def answers_of(judge, pairs):
    """What a model answers to a split."""
    replicas = Replicas(tf.distribute.get_strategy(), Cluster())
    return answer_together(judge.questions(pairs), replicas)
