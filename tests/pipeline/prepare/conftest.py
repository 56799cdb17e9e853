import io
import random

import pytest
import rich.console

from pipeline.experiment import Experiment
from pipeline.prepare.run import prepare
from pipeline.workspace import Workspace

WORDS = "the a cat dog bird sees hears likes big small red old house tree river and with on".split()
MOTS = (
    "le un chat chien oiseau voit entend aime grand petit rouge vieux maison arbre et avec".split()
)


@pytest.fixture
def make_pairs():
    """Different pairs of short sentences: `make_pairs(number)`."""

    def make(number, seed=1):
        source = random.Random(seed)
        pairs = {}
        while len(pairs) < number:
            english = " ".join(source.choices(WORDS, k=source.randint(2, 8)))
            french = " ".join(source.choices(MOTS, k=source.randint(2, 8)))
            pairs[english, french] = None
        return list(pairs)

    return make


@pytest.fixture
def write_tsv(tmp_path):
    """Writes pairs as TSV and gives the path: `write_tsv(pairs, name)`."""

    def write(pairs, name="corpus.tsv"):
        path = tmp_path / name
        path.write_bytes("".join(f"{source}\t{target}\n" for source, target in pairs).encode())
        return str(path)

    return write


# Tasks whose target side is not of pieces, so that it has no size to be given.
LABELLED = ("classification", "tagging", "answering")


@pytest.fixture
def make_experiment():
    """An experiment with small vocabularies that runs in this process, unless told otherwise."""

    def make(train, **sections):
        data = {"train": train, "shards": 2} | sections.pop("data", {})
        vocabulary = {"source_size": 200} | sections.pop("vocabulary", {})
        labelled = sections.get("model", {}).get("task") in LABELLED
        if not (vocabulary.get("shared") or labelled):
            vocabulary.setdefault("target_size", 200)
        cluster = {"running_mode": "in_memory"} | sections.pop("cluster", {})
        return Experiment(
            name="test", data=data, vocabulary=vocabulary, cluster=cluster, **sections
        )

    return make


@pytest.fixture
def run(tmp_path):
    """Runs the stage: `run(experiment, name)` gives workspace, manifest and what was printed."""

    def go(experiment, name="run"):
        workspace = Workspace(tmp_path / name)
        printed = io.StringIO()
        manifest = prepare(experiment, workspace, rich.console.Console(file=printed, width=160))
        return workspace, manifest, printed.getvalue()

    return go
