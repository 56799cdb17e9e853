"""Checkpoints: all that a training run needs to go on as if it had never stopped."""

import errno
import os
import pathlib
import re

import keras
import tensorflow as tf

from models.errors import UserError
from models.sequence_model import SequenceModel
from pipeline.experiment import Experiment
from pipeline.places import Place, place
from pipeline.tensorflow_files import for_tensorflow
from pipeline.workspace import (
    Workspace,
    file_fingerprint,
    fingerprint,
    read_json,
    remove_folder,
    write_json,
)

# Settings that may change between one start of a run and the next.
_FREE_SETTINGS = {
    "max_steps",
    "max_epochs",
    "log_every",
    "validate_every",
    "validation_sentences",
    "samples",
    "checkpoint_every",
    "keep_checkpoints",
    "early_stopping",
    "gradient_flow",
}

# What a system says that takes no more of a file.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

# Where in a graph an error came about, which TensorFlow tells too.
_OPERATIONS = re.compile(r"\{\{function_node .*?\}\} | \[Op:\w+\]")

# What TensorFlow raises for a file that is torn or is of another model.
_UNREADABLE = (tf.errors.OpError, AssertionError, ValueError, IndexError)


class Progress(tf.Module):
    """Where a run stands."""

    def __init__(self) -> None:
        super().__init__()
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False)  # steps done
        self.epoch = tf.Variable(0, dtype=tf.int64, trainable=False)  # the current one, from 0
        self.batch = tf.Variable(0, dtype=tf.int64, trainable=False)  # done of this epoch
        self.best = tf.Variable(float("nan"), dtype=tf.float64, trainable=False)
        self.best_step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.without_gain = tf.Variable(0, dtype=tf.int64, trainable=False)  # validations
        self.validated_at = tf.Variable(-1, dtype=tf.int64, trainable=False)  # a step


class Checkpoints:
    """Saves and restores a run.

    Model, optimizer, place in the data, best score, patience and the state of Keras's random
    generators are one checkpoint; the loss's draws are a function of seed and step.

    Args:
        workspace: Holds `train/` and `train/best/`.
        model: The model, built.
        optimizer: Its optimizer, built.
        progress: Where the run stands.
        keep: Checkpoints kept.
        scratch: Where a worker that is not the chief saves, since under a strategy all must; it
            reads the chief's. None for the chief.
    """

    def __init__(
        self,
        workspace: Workspace,
        model: SequenceModel,
        optimizer: keras.optimizers.Optimizer,
        progress: Progress,
        keep: int,
        scratch: pathlib.Path | None = None,
    ):
        carried = {str(index): each for index, each in enumerate(model.carried)}
        checkpoint = tf.train.Checkpoint(
            **({"carried": carried} if carried else {}),
            model=_by_path(model.variables),
            optimizer={str(index): each.value for index, each in enumerate(optimizer.variables)},
            progress=progress,
        )
        self._last = tf.train.CheckpointManager(checkpoint, _folder(workspace.train), keep)
        own = Workspace(scratch) if scratch else workspace
        self._saved = (
            tf.train.CheckpointManager(checkpoint, _folder(own.train), 1) if scratch else self._last
        )
        self._best = _best_manager(own, model)
        self._progress = progress

    def restore(self) -> list[str]:
        """Restore the last checkpoint, if there is one.

        A checkpoint that cannot be read whole is left for the one before it.

        Returns:
            Those that were left, newest first, each with the reason.

        Raises:
            UserError: If none can be read.
        """
        unreadable = []
        for path in reversed(self._last.checkpoints):
            try:
                self._last.checkpoint.restore(path).assert_consumed()
            except _UNREADABLE as error:
                unreadable.append(f"{path}: cannot be read ({_reason(error)})")
                continue
            return unreadable
        if unreadable:
            listed = "\n".join(unreadable)
            raise UserError(
                f"{self._last.directory}: none of its checkpoints can be read; restore the folder "
                f"or delete it to start anew\n{listed}"
            )
        return []

    def save(self) -> Place:
        """Save the run.

        Raises:
            UserError: If the disk is full.
        """
        return self._save(self._saved)

    def save_best(self) -> Place:
        """Save the model as the best one so far; else as `save`."""
        return self._save(self._best)

    def _save(self, manager: tf.train.CheckpointManager) -> Place:
        step = int(self._progress.step)
        try:
            return place(manager.save(checkpoint_number=step))
        except tf.errors.OpError as error:
            _clear(place(manager.directory), step)
            if not _is_full(error):
                raise
            last = self._last.latest_checkpoint
            kept = f"goes on from {last}" if last else "starts anew, since nothing was saved yet"
            raise UserError(
                f"{manager.directory}: step {step:,} cannot be saved, because the disk is full or "
                f"a limit is reached ({_reason(error)}); make room, and run the same command "
                f"again: the training {kept}"
            ) from None


def restore_best(workspace: Workspace, model: SequenceModel) -> int:
    """Give a model the best weights of a run.

    Args:
        workspace: Of the run.
        model: An equal model, built.

    Returns:
        The step the weights are from.

    Raises:
        UserError: If nothing was trained yet, or another model.
    """
    manager = _best_manager(workspace, model)
    path = latest_best(workspace)
    try:
        manager.checkpoint.restore(path).assert_consumed()
    except _UNREADABLE as error:
        raise UserError(
            f"{path}: does not fit the experiment's model ({_reason(error)}); use the experiment "
            f"it was trained with, {workspace.experiment}"
        ) from None
    return int(path.rsplit("-", 1)[1])


def best_fingerprint(workspace: Workspace) -> str:
    """Hash of the best weights of a run."""
    return file_fingerprint(f"{latest_best(workspace)}.data-00000-of-00001")


def latest_best(workspace: Workspace) -> str:
    """Prefix of the best checkpoint's files.

    Raises:
        UserError: If nothing was trained yet.
    """
    path = tf.train.latest_checkpoint(_folder(workspace.best))
    if path is None:
        raise UserError(f"{workspace.best}: no trained model yet; run `seqloom train` first")
    return path


def check_same_run(
    experiment: Experiment, data_fingerprint: str, workspace: Workspace, is_chief: bool = True
) -> None:
    """Refuse to go on with a run that another experiment began.

    Args:
        experiment: The experiment now.
        data_fingerprint: Of the prepared data.
        workspace: Of the run.
        is_chief: Whether this worker records the settings of a new run.

    Raises:
        UserError: Naming what differs.
    """
    path = workspace.train / "run.json"
    now = {
        "seed": fingerprint(experiment.seed),
        "data": data_fingerprint,
        "model": fingerprint(experiment.model.model_dump()),
        "train": fingerprint(experiment.train.model_dump(exclude=_FREE_SETTINGS)),
    }
    if not path.exists():
        if is_chief:
            write_json(path, now)
        return
    before = read_json(path, "Delete the folder to start anew.")
    changed = [name for name in now if before.get(name) != now[name]]
    if changed:
        raise UserError(
            f"{workspace.train}: begun with other settings of {' and '.join(changed)}; take "
            f"another workspace, undo the change, or delete this folder to start anew"
        )


def _best_manager(workspace: Workspace, model: SequenceModel) -> tf.train.CheckpointManager:
    checkpoint = tf.train.Checkpoint(model=_by_path(model.weights))
    return tf.train.CheckpointManager(checkpoint, _folder(workspace.best), 1)


def _folder(folder: Place) -> str:
    """A folder of checkpoints, for TensorFlow."""
    return for_tensorflow(
        folder, "name a folder of this machine, or a gs:// URL, in the key workspace"
    )


def _reason(error: Exception) -> str:
    # TensorFlow lists variables' values where the checkpoint lacks or has others.
    if isinstance(error, AssertionError):
        return "it holds other variables"
    text = error.message if isinstance(error, tf.errors.OpError) else str(error)
    line = next(iter(text.splitlines()), type(error).__name__)
    return _OPERATIONS.sub("", line)


def _is_full(error: tf.errors.OpError) -> bool:
    return any(os.strerror(number) in str(error) for number in _FULL)


def _clear(folder: Place, step: int) -> None:
    """Delete what a checkpoint that failed has left, which takes up the room of the next."""
    for path in folder.glob(f"ckpt-{step}[._]*"):
        if path.is_dir():
            remove_folder(path)
        else:
            path.unlink(missing_ok=True)


def _by_path(variables: list[keras.Variable]) -> dict[str, tf.Variable]:
    """Variables by their place in the model, whatever the model is called."""
    return {
        f"{index}_{variable.path.split('/', 1)[1].replace('/', '.')}": variable.value
        for index, variable in enumerate(variables)
    }
