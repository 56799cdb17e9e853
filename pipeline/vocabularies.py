"""The vocabularies of a run, as they work in graphs."""

from typing import NamedTuple

from models.errors import UserError
from models.tokenizers import VOCABULARIES, TextVocabulary
from pipeline.experiment import Experiment
from pipeline.places import Place
from pipeline.prepare.sides import sides_of
from pipeline.workspace import Workspace


class Vocabularies(NamedTuple):
    """The vocabularies of a run; the same object twice where it is shared."""

    source: TextVocabulary | None  # None in a task that reads no source
    target: TextVocabulary


def load_vocabularies(experiment: Experiment, workspace: Workspace) -> Vocabularies:
    """The vocabularies that `prepare` published.

    Raises:
        UserError: If there are none.
    """
    sides = sides_of(experiment)
    kinds = {side.vocabulary: side.kind for side in sides.values()}
    loaded = {
        name: VOCABULARIES[kind](_bytes(workspace.vocabulary(name)))  # type: ignore[call-arg]
        for name, kind in kinds.items()
    }
    of_side = {name: loaded[side.vocabulary] for name, side in sides.items()}
    return Vocabularies(of_side.get("source"), of_side["target"])


def _bytes(path: Place) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: no such vocabulary; run `seqloom prepare` first") from None
