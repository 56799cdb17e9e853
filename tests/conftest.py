"""Fixtures that tests of several packages share."""

import io
import random
import shutil
import signal

import pytest
import rich.console

# What a shell starts in the background ignores interrupts, and so would all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

TINY = """\
name: tiny
workspace: {folder}/run
seed: 5
data:
  source_language: en
  target_language: en
  train: [{{format: tsv, path: {folder}/train.tsv}}]
  valid: [{{format: tsv, path: {folder}/valid.tsv}}]
  test: [{{format: tsv, path: {folder}/test.tsv}}]
  cleaning: {{drop_duplicates: false}}
  shards: 3
vocabulary: {{source_size: 40, target_size: 40}}
model:
  embedding_size: 16
  dropout: 0.1
  encoder: {{units: 16}}
  decoder: {{units: 32}}
train:
  max_steps: 24
  batch_tokens: 256
  learning_rate: 0.01
  log_every: 4
  validate_every: 12
  validation_sentences: 8
  samples: 2
  checkpoint_every: 6
search: {{beam_size: 3}}
export: {{nbest: 3, warmup_requests: 2}}
cluster: {{workers: 1, running_mode: in_memory}}
"""


def write_tiny(folder):
    """A small corpus of words to copy, and its experiment."""
    generator = random.Random(2)
    words = ["sun", "moon", "star", "sky", "rain", "wind", "snow", "fog"]
    for name, count in (("train", 400), ("valid", 24), ("test", 24)):
        lines = []
        for _ in range(count):
            sentence = " ".join(generator.choices(words, k=generator.randint(1, 8)))
            lines.append(f"{sentence}\t{sentence}\n")
        (folder / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    path = folder / "tiny.yaml"
    path.write_text(TINY.format(folder=folder), encoding="utf-8")
    return path


@pytest.fixture
def console():
    """A console that prints into a string."""
    return rich.console.Console(file=io.StringIO(), width=100)


@pytest.fixture(scope="session")
def prepared_folder(tmp_path_factory):
    """A folder with a tiny corpus, its experiment and prepared data; not to be written in."""
    from pipeline.experiment_file import load_experiment, workspace_of
    from pipeline.prepare.run import prepare

    folder = tmp_path_factory.mktemp("prepared")
    experiment = load_experiment(write_tiny(folder))
    prepare(experiment, workspace_of(experiment), rich.console.Console(file=io.StringIO()))
    return folder


@pytest.fixture
def tiny(prepared_folder, tmp_path):
    """Path of an experiment in a fresh folder, with its data prepared."""
    folder = tmp_path / "tiny"
    shutil.copytree(prepared_folder, folder)
    path = folder / "tiny.yaml"
    # The corpora stay where they were prepared from; only the run moves.
    text = path.read_text().replace(f"{prepared_folder}/run", f"{folder}/run")
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def trained_folder(prepared_folder, tmp_path_factory):
    """A prepared folder with a trained model too; not to be written in."""
    from pipeline.experiment_file import load_experiment, workspace_of
    from pipeline.train.trainer import Trainer

    folder = tmp_path_factory.mktemp("trained")
    shutil.copytree(prepared_folder, folder, dirs_exist_ok=True)
    path = folder / "tiny.yaml"
    path.write_text(path.read_text().replace(f"{prepared_folder}/run", f"{folder}/run"))
    experiment = load_experiment(path)
    Trainer(experiment, workspace_of(experiment)).run()
    return folder


@pytest.fixture
def trained(trained_folder, tmp_path):
    """Path of an experiment in a fresh folder, with a trained model."""
    folder = tmp_path / "trained"
    shutil.copytree(trained_folder, folder)
    path = folder / "tiny.yaml"
    path.write_text(path.read_text().replace(f"{trained_folder}/run", f"{folder}/run"))
    return path


@pytest.fixture
def store(request):
    """A folder of a store in memory, as a URL."""
    import tests.memory_store  # noqa: F401  registers it

    return f"ram://{request.node.name}"
