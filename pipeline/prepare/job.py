"""What every worker is told: the choices of the experiment and where the files go."""

import dataclasses
import pathlib
import tempfile
from collections.abc import Sequence

from pipeline.experiment import CorpusFile, DataSection, Experiment, VocabularySection
from pipeline.experiment.task_groups import CLIP_TASKS, PICTURE_TASKS
from pipeline.places import Place
from pipeline.prepare.milestones import Milestones
from pipeline.prepare.plan import list_inputs, list_splits
from pipeline.prepare.selection import TRAIN, Pair, PairSelection
from pipeline.prepare.sentences import question_of
from pipeline.prepare.shards import ShardOptions
from pipeline.prepare.sides import Side, sides_of
from pipeline.workspace import Workspace


@dataclasses.dataclass(frozen=True)
class Job:
    """One run of the stage. Workers on other machines need `folder` under the same path.

    Attributes:
        data: The experiment's section.
        vocabulary: The experiment's section.
        task: The experiment's.
        sides: What records hold, by name of the side.
        seed: The experiment's seed.
        inputs: Split and description of each input, by index.
        input_names: Name of each input, by index, as `train[0]`.
        shards: How the shards of each split are written.
        folder: Receives vocabularies and shards.
        scratch: Receives what is gone when the stage ends.
        logs: Receives the worker processes' standard error; no URL.
    """

    data: DataSection
    vocabulary: VocabularySection
    task: str
    sides: dict[str, Side]
    seed: int
    inputs: tuple[tuple[str, CorpusFile], ...]
    input_names: tuple[str, ...]
    shards: dict[str, ShardOptions]
    folder: Place
    scratch: Place
    logs: pathlib.Path

    @property
    def reads_pictures(self) -> bool:
        """Whether sources are paths of pictures or of clips."""
        return task_reads_pictures(self.task)

    @property
    def reads_clips(self) -> bool:
        """Whether these are clips."""
        return self.task in CLIP_TASKS

    @property
    def vocabularies(self) -> dict[str, Side]:
        """A side of each vocabulary, by name of the vocabulary."""
        return {side.vocabulary: side for side in self.sides.values()}

    @property
    def milestones(self) -> Milestones:
        """Marks of the work done."""
        return Milestones(self.scratch / "milestones")

    @property
    def report_path(self) -> Place:
        """File that receives the report of the whole run."""
        return self.scratch / "report.pickle"

    @property
    def unpacked(self) -> Place:
        """Folder of the plain text of compressed inputs."""
        return self.scratch / "unpacked"

    def selection(self) -> PairSelection:
        """The reading half of the stage."""
        sides = ("source", "target") if self.reads_pictures else tuple(self.sides)
        return PairSelection(self.data, self.inputs, self.seed, sides, self.reads_pictures)

    def texts(self, side: str, pairs: Sequence[Pair]) -> list[bytes]:
        """What the pieces of a side are made of: of a question about a picture, not its path."""
        if self.reads_pictures and side == "source":
            return [question_of(pair.source) for pair in pairs]
        return [getattr(pair, side) for pair in pairs]


def task_reads_pictures(task: str) -> bool:
    """Whether sources of a task are paths of pictures or of clips."""
    return task in PICTURE_TASKS


def make_job(experiment: Experiment, workspace: Workspace, folder: Place) -> Job:
    """Describe a run that writes to `folder`, and make the folders it needs."""
    scratch = folder.absolute() / ".scratch"
    inputs = list_inputs(experiment.data)
    job = Job(
        data=experiment.data,
        vocabulary=experiment.vocabulary,
        task=experiment.model.task,
        sides=sides_of(experiment),
        seed=experiment.seed,
        inputs=tuple((split, corpus) for split, _, corpus in inputs),
        input_names=tuple(f"{split}[{position}]" for split, position, _ in inputs),
        shards={
            split: _shard_options(experiment.data, workspace, split)
            for split in list_splits(experiment.data)
        },
        folder=folder.absolute(),
        scratch=scratch,
        logs=_folder_here(scratch, workspace).absolute() / "logs",
    )
    for needed in (job.scratch / "milestones", job.logs, job.unpacked):
        needed.mkdir(parents=True, exist_ok=True)
    return job


def _folder_here(scratch: Place, workspace: Workspace) -> pathlib.Path:
    """A folder of this machine that is gone when the stage ends, made where nothing has one."""
    for beside in (scratch, workspace.root / ".prepare"):
        if isinstance(beside, pathlib.Path):
            return beside
    return pathlib.Path(tempfile.mkdtemp(prefix="seqloom-prepare-"))


def _shard_options(data: DataSection, workspace: Workspace, split: str) -> ShardOptions:
    training = split == TRAIN
    count = data.shards if training else data.evaluation_shards
    paths = [workspace.shard(split, index, count, data.compression) for index in range(count)]
    return ShardOptions(
        split=split,
        names=tuple(path.name for path in paths),
        shuffled=training and data.order == "shuffled",
        drop_duplicates=training and data.cleaning.drop_duplicates,
        compression=data.compression,
    )
