"""The model that is evaluated and exported: a run's best one, or those of several runs together."""

from typing import NamedTuple

from models.encoder_decoder import EncoderDecoder
from models.errors import UserError
from models.sequence_model import SequenceModel
from pipeline.experiment import Experiment
from pipeline.experiment_file import load_experiment
from pipeline.places import place
from pipeline.tasks.contract import Task
from pipeline.train.checkpoints import best_fingerprint, restore_best
from pipeline.workspace import Workspace, read_json

_KEY = "search.ensemble"
_REMEDY = "Run `seqloom prepare` there again."


class BestModel(NamedTuple):
    """A trained model.

    Attributes:
        model: With its weights.
        step: Of the training run, from which they are.
        others: Of the other runs that take part, by workspace, the steps that theirs are from.
    """

    model: SequenceModel
    step: int
    others: dict[str, int]


def load_best(task: Task, workspace: Workspace) -> BestModel:
    """The best model of a run, together with those of the runs that `search.ensemble` names.

    The other models may be built in any way, from other settings of model and train.

    Args:
        task: Of the experiment.
        workspace: Of the run.

    Raises:
        UserError: If nothing was trained yet in one of the runs, or another one cannot take part:
            its task, vocabularies or features of pictures are others, or its training split may
            hold what is tested.
    """
    model = task.build_model()
    step = restore_best(workspace, model)
    members = [model]
    others: dict[str, int] = {}
    for other in other_runs(task.experiment, workspace):
        experiment = _experiment_of(other)
        other = Workspace(other.root, experiment.data.folder)
        _check_task(experiment, task.experiment, other)
        _check_vocabularies(other, workspace)
        _check_splits(experiment, task.experiment, other)
        _check_pictures(experiment, task.experiment, other)
        members.append(type(task)(experiment, task.vocabularies).build_model())
        others[str(other.root)] = restore_best(other, members[-1])
    if others:
        model = task.joined([each for each in members if isinstance(each, EncoderDecoder)])
    return BestModel(model, step, others)


def best_fingerprints(experiment: Experiment, workspace: Workspace) -> list[str]:
    """Hashes of the weights of `load_best`'s model, the run's own first."""
    return [best_fingerprint(each) for each in (workspace, *other_runs(experiment, workspace))]


def other_runs(experiment: Experiment, workspace: Workspace) -> list[Workspace]:
    """The workspaces that `search.ensemble` names.

    Raises:
        UserError: If one is the run's own, or stands there twice.
    """
    others = [Workspace(place(text)) for text in experiment.search.ensemble]
    own = workspace.root.resolve()
    taken = [own]
    for other in others:
        folder = other.root.resolve()
        if folder in taken:
            reason = "the run itself, which takes part anyway" if folder == own else "named twice"
            raise UserError(f"{_KEY}: {other.root}: {reason}; name other runs, each once")
        taken.append(folder)
    return others


def _experiment_of(other: Workspace) -> Experiment:
    if not other.experiment.is_file():
        raise UserError(
            f"{_KEY}: {other.root}: no run is there, as it has no {other.experiment.name}; name "
            f"the workspace of a run that was trained"
        )
    return load_experiment(other.experiment)


def _check_task(experiment: Experiment, own: Experiment, other: Workspace) -> None:
    if experiment.model.task != own.model.task:
        raise UserError(
            f"{_KEY}: {other.root}: a run of the task {experiment.model.task!r}, where this one's "
            f"is {own.model.task!r}; name runs of one task"
        )


def _check_vocabularies(other: Workspace, own: Workspace) -> None:
    """Ids have to mean the same to all, on either side."""
    theirs, ours = _vocabularies(other), _vocabularies(own)
    for side, vocabulary in ours.items():
        if theirs.get(side) != vocabulary:
            raise UserError(
                f"{_KEY}: {other.root}: its {side} vocabulary is another than that of {own.root}; "
                f"name runs whose vocabularies were prepared from the same corpora, settings and "
                f"seed"
            )


def _vocabularies(workspace: Workspace) -> dict[str, str]:
    """Hashes of the vocabularies, by side."""
    manifest = read_json(workspace.manifest, _REMEDY)
    return {
        side: manifest["vocabularies"][name]["hash"] for side, name in manifest["sides"].items()
    }


def _check_pictures(experiment: Experiment, own: Experiment, other: Workspace) -> None:
    """One picture is shown to all, as the records of the run itself hold it."""
    if own.data.pictures.fine_tune or experiment.data.pictures.fine_tune:
        raise UserError(
            f"{_KEY}: {other.root}: runs with data.pictures.fine_tune cannot take part or be "
            f"joined, since each makes features of its own; take runs of a frozen network"
        )
    if experiment.data.pictures != own.data.pictures:
        raise UserError(
            f"{_KEY}: {other.root}: reads other features of pictures, by its data.pictures; give "
            f"all runs one data.pictures"
        )


def _check_splits(experiment: Experiment, own: Experiment, other: Workspace) -> None:
    """What one run holds out, none may have learned from."""
    shares = own.data.hold_out
    if not shares.valid and not shares.test:
        return
    if (experiment.seed, experiment.data.hold_out) != (own.seed, shares):
        raise UserError(
            f"{_KEY}: {other.root}: held out other sentences than this run, by its seed or its "
            f"data.hold_out, and so has learned from some of those that are scored here; give all "
            f"runs one seed and one hold_out, or name files in data.valid and data.test"
        )
