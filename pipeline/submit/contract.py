"""The contract of a launcher, and what it is given and gives."""

import abc
import pathlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple, get_args

import pydantic

from pipeline.experiment import SubmitSection
from pipeline.places import Place, place

Stage = Literal["prepare", "train", "evaluate", "export"]
STAGES: tuple[Stage, ...] = get_args(Stage)

State = Literal["waiting", "running", "done", "failed", "cancelled", "lost"]
# States that a job does not leave.
ENDED: tuple[State, ...] = ("done", "failed", "cancelled", "lost")

# A place whose text is what a handle keeps of it.
KeptPlace = Annotated[
    Place,
    pydantic.PlainValidator(lambda value: place(str(value))),
    pydantic.PlainSerializer(str, return_type=str),
]


@dataclass(frozen=True)
class Job:
    """What is to be run: the same for every launcher.

    Attributes:
        id: Unique in the workspace, of letters, digits and dashes, 40 characters at most.
        folder: The job's own, `<workspace>/jobs/<id>`, an absolute path or a URL that all its
            processes see. It holds `experiment.yaml`, `job.json` and `logs/`; a launcher may add
            files. Of a workspace at a URL it is `runs/<name>/jobs/<id>` on a disk for launchers
            that can do with nothing else.
        directory: Where the processes are started, since an experiment's relative paths are
            relative to that.
        workspace: The run's folder, absolute, or its URL.
        stages: In the order they are run, each after the one before has succeeded.
        workers: Of `train`, which runs as a gang described by `TF_CONFIG`; every other stage is
            one process to the launcher.
        gpus_per_worker: 0 for none.
        max_restarts: How often a stage is started again, all of its processes together, after
            one of them ended with another exit status than 0 (done) or 2 (the user's mistake,
            which no restart mends).
        grace_seconds: Between SIGTERM and SIGKILL; also how long processes may go on after
            another of their gang has ended.
        environment: Variables the processes are given beside those they inherit.
    """

    id: str
    folder: KeptPlace
    directory: pathlib.Path
    workspace: KeptPlace
    stages: tuple[Stage, ...]
    workers: int
    gpus_per_worker: int
    max_restarts: int
    grace_seconds: float
    environment: Mapping[str, str]

    @property
    def experiment(self) -> Place:
        """The experiment, as it was when the job was submitted, overrides included."""
        return self.folder / "experiment.yaml"

    @property
    def logs(self) -> Place:
        """Holds `<stage>-<worker>.log`, workers from 0; a restart goes on in the same file."""
        return self.folder / "logs"

    def processes(self, stage: Stage) -> int:
        """How many processes a stage is run by."""
        return self.workers if stage == "train" else 1

    def arguments(self, stage: Stage) -> tuple[str, ...]:
        """What stands after `seqloom` on the command line of each of a stage's processes.

        Of several stages those that are up to date are left out; one alone is run again.
        """
        if len(self.stages) > 1:
            return ("run", str(self.experiment), "--stage", stage)
        return (stage, str(self.experiment))


@dataclass(frozen=True)
class JobHandle:
    """A submitted job, as `<job folder>/job.json` keeps it.

    Attributes:
        job: The job.
        to: Its launcher's name in `LAUNCHERS`.
        submitted: When, ISO 8601 with the time zone.
        native: JSON-like; what the backend knows the job by, such as Slurm's job numbers.
    """

    job: Job
    to: str
    submitted: str
    native: dict[str, Any]


class Status(NamedTuple):
    """How a job stands."""

    state: State
    stage: Stage | None = None  # that runs, waits or ended the job
    restarts: int = 0  # of that stage
    detail: str = ""  # one line for a person: why it waits or failed


class Launcher(abc.ABC):
    """Contract of the family: runs jobs on one kind of machinery.

    A job outlives the command that submits it. Its handle, in the job's folder, is all that
    another process needs to ask for it, read it and end it; a launcher keeps nothing else on
    this machine. What a backend refuses or lacks is a `UserError` that says what to change.

    Args:
        options: The experiment's section `submit`, as it was when the job was submitted.

    Attributes:
        jobs_at_urls: Whether it can do with a job's folder at a URL.
    """

    jobs_at_urls = False

    def __init__(self, options: SubmitSection):
        self.options = options

    @abc.abstractmethod
    def plan(self, job: Job) -> str:
        """All that `submit` would start, as text: commands, a batch script or a manifest.

        Nothing is written and nothing started; the job's folder need not exist.
        """

    @abc.abstractmethod
    def submit(self, job: Job) -> dict[str, Any]:
        """Start a job, or queue it.

        Args:
            job: The job; its folder holds its experiment, and a handle without `native`.

        Returns:
            The handle's `native`.

        Raises:
            UserError: If the backend is not there or refuses the job. Nothing is left running.
        """

    @abc.abstractmethod
    def status(self, handle: JobHandle) -> Status:
        """How a job stands now; `lost` if the backend does not know it any more."""

    @abc.abstractmethod
    def logs(self, handle: JobHandle, follow: bool) -> Iterator[str]:
        """Lines that the job's processes have printed, without line ends.

        Args:
            handle: The job.
            follow: Go on, as lines are printed, until the job has ended; else end at once.
        """

    @abc.abstractmethod
    def cancel(self, handle: JobHandle) -> None:
        """End a job's processes and everything that waits; nothing if it has ended.

        Processes are first asked by SIGTERM, upon which a training saves.
        """
