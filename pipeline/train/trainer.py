"""The trainer: one loop, driving ordinary Keras callbacks."""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Sequence

import keras
import tensorflow as tf

from models.errors import UserError
from models.keras_recurrent import refuse_cudnn
from models.sequence_model import SequenceModel
from pipeline.assembly import build_loss, configure_tensorflow, start_projection
from pipeline.batch_plan import BatchOptions
from pipeline.batches import read_pairs
from pipeline.experiment import Experiment, TrainSection
from pipeline.experiment_file import record_experiment
from pipeline.monitor.callbacks import show_gradient_flow, show_samples
from pipeline.prepare.manifest import load_manifest
from pipeline.questions import answer_together
from pipeline.tasks.members import make_task
from pipeline.train.checkpoints import Checkpoints, Progress, check_same_run
from pipeline.train.fine_tuning import slow_down
from pipeline.train.gradient_flow import GradientFlowReport
from pipeline.train.lazy_adam import LazyAdam
from pipeline.train.methods import TrainingMethods
from pipeline.train.readers import Readers
from pipeline.train.replicas import Batch, Cluster, Replicas, group, make_strategy
from pipeline.train.schedules import WarmUpThenDecay
from pipeline.train.steps import Steps
from pipeline.train.stopping import Reason, Stopping, stopping_on_signals
from pipeline.train.validation import measure_losses, validation_step
from pipeline.train.window import Window
from pipeline.workspace import Workspace

_LOWER_IS_BETTER = {"loss", "perplexity"}


@dataclasses.dataclass(frozen=True)
class TrainingOutcome:
    """How a run ended.

    Attributes:
        step: Steps done.
        best: Best value of the metric the experiment names; NaN if never validated.
        best_step: Step it was reached at.
        reason: `steps`, `epochs`, `patience`, `callback`, `signal`, or `already finished`.
    """

    step: int
    best: float
    best_step: int
    reason: str


class Trainer:
    """One training run, or one worker's part of it.

    Args:
        experiment: The experiment.
        workspace: Its workspace, with prepared data.
        scratch: Where a worker that is not the chief saves what nobody reads.

    Raises:
        UserError: If the data are not the experiment's, there is no valid split, or the workspace
            holds a run of other settings.
    """

    def __init__(
        self,
        experiment: Experiment,
        workspace: Workspace,
        scratch: pathlib.Path | None = None,
    ):
        manifest = load_manifest(workspace, experiment)
        if not workspace.shards("valid"):
            raise UserError(
                f"{workspace.data}: there is no valid split to choose the best model by; name "
                f"data.valid or data.hold_out.valid and run `seqloom prepare` again"
            )
        self.cluster = Cluster.of_environment()
        check_same_run(experiment, manifest["fingerprint"], workspace, self.cluster.is_chief)
        configure_tensorflow(experiment)
        self._strategy = make_strategy(self.cluster)
        self._replicas = Replicas(self._strategy, self.cluster)
        keras.utils.set_random_seed(experiment.seed)
        self._experiment = experiment
        self._options: TrainSection = experiment.train
        self._workspace = workspace
        self._task = make_task(experiment, workspace)
        shards = workspace.shards("train")
        self._readers = Readers(self._task, shards, self._options.readers, self._replicas)
        self._methods = TrainingMethods(self._options, shards)
        self._scratch = scratch
        self.progress = Progress()  # Each worker's own, and the same on all.
        with self._strategy.scope():
            self._build()
        self._window = Window(self._strategy)
        self._batch_options = BatchOptions(
            self._options.batch_tokens, self._options.shuffle_pool, self._options.jit_compile
        )
        self._judge = self._task.judge(self.model)
        self._validation_step = validation_step(self.model, self._strategy)
        self._stopping = Stopping(self._replicas)
        self._epoch_logs: dict[str, float] = {}
        # Checkpoints that were left for the one before, each with the reason.
        self.unreadable = self._checkpoints.restore()
        self._replicas.check_same_step(self.step, str(workspace.train))
        self._replicas.part_seeds(self.model)

    @property
    def step(self) -> int:
        """Steps done, those of earlier starts included."""
        return int(self.progress.step)

    @property
    def total_steps(self) -> int:
        """Steps of the whole run at most."""
        limit, epochs = self._options.max_steps, self._options.max_epochs
        if epochs is None:
            return limit
        count = functools.cache(self._readers.count_batches)
        total = 0
        for epoch in range(epochs):
            batches = count(self._methods.batch_options(self._batch_options, epoch))
            total += -(-batches // self._options.accumulate_steps)
            if total >= limit:
                return limit
        return total

    def run(self, callbacks: Sequence[keras.callbacks.Callback] = ()) -> TrainingOutcome:
        """Train until a limit, patience, a callback or a signal ends it.

        Args:
            callbacks: Keras callbacks. Batch hooks come with the number of steps done and,
                every `log_every` steps, with logs; `on_test_end` with a validation's logs;
                `on_epoch_end` with the latest of both, the validation's as `val_...`. The
                monitor's callbacks are given sample translations too.

        Raises:
            UserError: If the loss is not finite.
        """
        # A run that was stopped by a signal at its last step has yet to be validated.
        if self._finished() and int(self.progress.validated_at) == self.step:
            return self._outcome("already finished")
        self._callbacks = keras.callbacks.CallbackList(
            list(callbacks), model=self.model, epochs=self._options.max_epochs or 1
        )
        if self.cluster.is_chief:
            record_experiment(self._experiment, self._workspace)
        self.model.stop_training = False
        self._stopping = Stopping(self._replicas)
        with stopping_on_signals(self._stopping):
            self._callbacks.on_train_begin()
            while not self._finished():
                self._run_epoch()
            self._end()
        self._callbacks.on_train_end()
        return self._outcome(self._finished() or "steps")

    def stop(self, reason: Reason) -> None:
        """End after the current step."""
        self._stopping.ask(reason)

    def _build(self) -> None:
        options = self._options
        keras.config.set_dtype_policy(options.precision)
        try:
            self.model: SequenceModel = self._task.build_model()
        finally:
            keras.config.set_dtype_policy("float32")
        start_projection(self._experiment, self._workspace, self.model.projection)
        self.model.loss_function = build_loss(
            self._experiment, self._workspace, self.model.projection.vocabulary_size
        )
        self._methods.install(self.model)
        if options.jit_compile:
            # XLA compiles neither shapes that depend on data nor cuDNN's operations.
            self.model.drop_pads = False
            refuse_cudnn(self.model)
        optimizer = make_optimizer(options)
        slow_down(optimizer, self.model.pretrained, options.fine_tune_rate)
        self.model.compile(optimizer=optimizer)
        optimizer = self.model.optimizer
        optimizer.build(self.model.trainable_variables)
        self._checkpoints = Checkpoints(
            self._workspace,
            self.model,
            optimizer,
            self.progress,
            options.keep_checkpoints,
            self._scratch,
        )
        self._steps = Steps(
            self.model,
            optimizer,
            options.clip,
            self._experiment.seed,
            self._strategy,
            options.jit_compile,
        )

    def _run_epoch(self) -> None:
        """The rest of the current epoch."""
        epoch = int(self.progress.epoch)
        self._callbacks.on_epoch_begin(epoch)
        options = self._methods.batch_options(self._batch_options, epoch)
        read = self._readers.epoch(options, epoch, skip=int(self.progress.batch))
        if not self._options.jit_compile:  # XLA is given the sizes themselves.
            self._steps.expect(read.spec)
        for together in group(read.batches, self._options.accumulate_steps):
            self._run_step(together)
            if self._finished():
                return
        self._callbacks.on_epoch_end(epoch, dict(self._epoch_logs))
        self.progress.epoch.assign_add(1)
        self.progress.batch.assign(0)

    def _run_step(self, batches: list[list[Batch]]) -> None:
        """Learn from some batches, this worker from its parts of them."""
        parts = [part for batch in batches for part in batch]
        step = int(self.progress.step)
        self._callbacks.on_train_batch_begin(step)
        moment = tf.constant(step, tf.int64), tf.constant(int(self.progress.epoch), tf.int64)
        held, number = None, None
        for index, part in enumerate(parts[:-1]):
            held = self._steps.hold(part, *moment, held, tf.constant(index, tf.int64))
            number = tf.constant(index + 1, tf.int64)
        wishes = self._stopping.wishes()
        report = self._steps.train(parts[-1], *moment, held, number, wishes)
        self._stopping.hear(report.asked)
        self._window.add(report)
        self.progress.step.assign_add(1)
        self.progress.batch.assign_add(len(batches))
        step += 1
        options = self._options
        logs = self._logs() if step % options.log_every == 0 else None
        self._callbacks.on_train_batch_end(step, logs)
        with self._window.paused():
            if step % options.validate_every == 0:
                self._validate()
            if step % options.checkpoint_every == 0:
                self._checkpoints.save()

    def _end(self) -> None:
        """Leave the run so that it can be used, or gone on with, from here."""
        step = int(self.progress.step)
        if self._stopping.reason != "signal" and int(self.progress.validated_at) != step:
            self._validate()
        self._checkpoints.save()

    def _logs(self) -> dict[str, float]:
        """Means since the last logs."""
        logs = self._window.logs()
        self._window.clear()
        rate = self.model.optimizer.learning_rate
        logs["learning_rate"] = float(rate)
        logs.update(self._methods.figures(self.step - 1, int(self.progress.epoch)))
        self._epoch_logs.update(logs)
        if not math.isfinite(logs["loss"]) and self._options.precision != "mixed_float16":
            raise UserError(
                f"step {int(self.progress.step)}: the loss is {logs['loss']}; lower "
                f"train.learning_rate or train.clip.threshold and start anew: take another "
                f"workspace, or delete {self._workspace.train}"
            )
        if logs.get("kept_share") == 0.0:
            raise UserError(
                f"step {int(self.progress.step)}: no example's loss was below the threshold "
                f"{logs['self_paced_threshold']:.3g} for {self._options.log_every} steps, so that "
                f"nothing is learned; raise train.self_paced.threshold and start anew: take "
                f"another workspace, or delete {self._workspace.train}"
            )
        return logs

    def _validate(self) -> None:
        """Measure, report, and keep the model if it is the best so far."""
        step = int(self.progress.step)
        shards = self._workspace.shards("valid")
        self._callbacks.on_test_begin()
        batches = self._task.validation_batches(shards, self._batch_options)
        losses = measure_losses(self._validation_step, batches, self._replicas)
        logs = {
            "step": step,
            "loss": losses.loss,
            "perplexity": losses.perplexity,
            "accuracy": losses.accuracy,
            **self._judged(step),
        }
        best_metric = self._experiment.best_metric
        logs[best_metric] = self._replicas.chiefs(logs.get(best_metric, math.nan))
        self._keep_if_best(step, logs[best_metric])
        self.progress.validated_at.assign(step)
        self._epoch_logs.update({f"val_{name}": value for name, value in logs.items()})
        self._callbacks.on_test_end(logs)

    def _judged(self, step: int) -> dict[str, float]:
        """Metrics of the model's answers, which all workers give and the chief alone judges."""
        pairs = read_pairs(self._workspace.shards("valid"), self._options.validation_sentences)
        answers = answer_together(self._judge.validation_questions(pairs), self._replicas)
        if not self.cluster.is_chief:
            return {}
        judged = self._judge.validate(pairs, answers, self._options.samples)
        if judged.samples:
            show_samples(self._callbacks.callbacks, step, judged.samples)
        if self._gradient_flow:
            flows = self._gradient_flow.measure(step)
            show_gradient_flow(self._callbacks.callbacks, step, flows)
        return judged.metrics

    @functools.cached_property
    def _gradient_flow(self) -> GradientFlowReport | None:
        """Measures how far back gradients reach, where that is asked for."""
        options = self._options.gradient_flow
        if not options.sentences:
            return None
        batches = self._task.validation_batches(
            self._workspace.shards("valid"), self._batch_options
        )
        return GradientFlowReport(
            self.model, batches, options.sentences, options.longest, self._workspace.logs
        )

    def _keep_if_best(self, step: int, value: float) -> None:
        """Save the best model so far; count the validations that did not gain enough."""
        best = float(self.progress.best)
        gain = best - value if self._experiment.best_metric in _LOWER_IS_BETTER else value - best
        first = math.isnan(best)
        if first or gain > self._options.early_stopping.minimum_gain:
            self.progress.without_gain.assign(0)
        else:
            self.progress.without_gain.assign_add(1)
        if first or gain > 0:
            self.progress.best.assign(value)
            self.progress.best_step.assign(step)
            self._checkpoints.save_best()

    def _finished(self) -> str | None:
        """Why the run is over, or None."""
        options = self._options
        patience = options.early_stopping.patience
        if getattr(self.model, "stop_training", False):
            self._stopping.ask("callback")
        if reason := self._stopping.reason:
            return reason
        if int(self.progress.step) >= options.max_steps:
            return "steps"
        if options.max_epochs is not None and int(self.progress.epoch) >= options.max_epochs:
            return "epochs"
        if patience and int(self.progress.without_gain) >= patience:
            return "patience"
        return None

    def _outcome(self, reason: str) -> TrainingOutcome:
        return TrainingOutcome(
            int(self.progress.step),
            float(self.progress.best),
            int(self.progress.best_step),
            reason,
        )


def make_optimizer(options: TrainSection) -> keras.optimizers.Optimizer:
    """The optimizer of an experiment, with its schedule."""
    rate = WarmUpThenDecay(options.learning_rate, options.schedule)
    if options.optimizer == "sgd":
        return keras.optimizers.SGD(rate)
    if options.optimizer == "lazy_adam":
        return LazyAdam(rate)
    return keras.optimizers.Adam(rate)
