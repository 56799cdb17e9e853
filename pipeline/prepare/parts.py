"""The stage in parts, for machines that share a folder and nothing else.

    sample[i]   some training blocks   ─▶ their sample of sentences
    vocabulary  all samples            ─▶ vocabularies
    encode[i]   some blocks            ─▶ their pairs, by shard
    write[i]    all pairs of a shard   ─▶ the shard, for some shards

Each part is a pipeline of the same steps as the whole, run by Beam's local runner. A sample of
samples is the sample of the whole, and a shard depends on its pairs alone, so that the parts give
the files of one run, byte for byte, however many they are.
"""

import dataclasses
import pickle
from collections.abc import Callable, Iterator

from pipeline.experiment import ClusterSection
from pipeline.places import Place
from pipeline.prepare.engine import beam
from pipeline.prepare.job import Job
from pipeline.prepare.pipeline import (
    encode_pairs,
    read_report,
    sample_sentences,
    train_vocabularies,
    training_blocks,
    write_report,
)
from pipeline.prepare.reading import Block
from pipeline.prepare.report import Report, merge
from pipeline.prepare.runner import PipelineRun
from pipeline.prepare.stages import REPORT, BottomSentences, WriteShard
from pipeline.workspace import vocabulary_file

PHASES = ("sample", "vocabulary", "encode", "write")


@dataclasses.dataclass(frozen=True)
class Plan:
    """What the parts have in common.

    Attributes:
        job: The run.
        blocks: All blocks of all inputs.
        cluster: How each part uses its machine.
        count: Parts of a phase, but for `vocabulary`, which is one.
    """

    job: Job
    blocks: list[Block]
    cluster: ClusterSection
    count: int

    def parts(self, phase: str) -> int:
        """Parts of a phase."""
        return 1 if phase == "vocabulary" else self.count

    @property
    def folder(self) -> Place:
        """Holds what a phase leaves to the next."""
        return self.job.scratch / "parts"

    @property
    def path(self) -> Place:
        """Where the plan itself is written."""
        return self.folder / "plan.pickle"

    def report_path(self, phase: str, index: int) -> Place:
        """Report of a part, there once the part is done."""
        return self.folder / f"{phase}-{index}.report"

    def write(self) -> None:
        """Write the plan for its parts."""
        self.folder.mkdir()
        self.path.write_bytes(pickle.dumps(self))

    def report(self) -> Report:
        """What all parts of all phases have to say."""
        return merge(
            read_report(self.report_path(phase, index))
            for phase in PHASES
            for index in range(self.parts(phase))
        )


def read_plan(path: Place) -> Plan:
    """The plan that `Plan.write` wrote."""
    return pickle.loads(path.read_bytes())


def run_part(plan: Plan, phase: str, index: int) -> None:
    """Run one part to its end.

    Args:
        plan: The plan.
        phase: One of `PHASES`.
        index: Of the part, from 0.
    """
    logs = plan.job.logs / f"{phase}-{index}"
    logs.mkdir(exist_ok=True)
    build = _BUILDERS[phase]
    PipelineRun(plan.cluster, logs).run(lambda pipeline: build(pipeline, plan, index), _no_progress)


def _no_progress() -> None:
    """The command counts milestones itself."""


def _sample(pipeline: beam.Pipeline, plan: Plan, index: int) -> None:
    blocks = training_blocks(plan.job, plan.blocks)[index :: plan.count]
    sampled = sample_sentences(pipeline, plan.job, blocks)
    (
        sampled.sentences
        | "Bottom k of part" >> beam.CombinePerKey(BottomSentences(plan.job))
        | "Leave" >> beam.MapTuple(_keeper(plan.folder, index, "sentences"))
    )
    write_report((sampled[REPORT],), plan.report_path("sample", index))


def _vocabulary(pipeline: beam.Pipeline, plan: Plan, index: int) -> None:
    found = [(side, each) for side in plan.job.sides for each in _left(plan.folder, side)]
    sentences = pipeline | "Samples" >> beam.Create(found)
    trained = train_vocabularies(sentences, plan.job)
    write_report((trained[REPORT],), plan.report_path("vocabulary", index))


def _encode(pipeline: beam.Pipeline, plan: Plan, index: int) -> None:
    paths = {name: plan.job.folder / vocabulary_file(name) for name in plan.job.vocabularies}
    files = [(name, path.read_bytes()) for name, path in paths.items() if path.exists()]
    models = pipeline | "Models" >> beam.Create(files)
    encoded = encode_pairs(pipeline, plan.job, plan.blocks[index :: plan.count], models)
    (
        encoded.pairs
        | "By shard" >> beam.GroupByKey()
        | "Leave" >> beam.MapTuple(_keeper(plan.folder, index, "pairs"))
    )
    write_report((encoded[REPORT],), plan.report_path("encode", index))


def _write(pipeline: beam.Pipeline, plan: Plan, index: int) -> None:
    names = [name for shards in plan.job.shards.values() for name in shards.names]
    folder = plan.folder
    written = (
        pipeline
        | "Shards" >> beam.Create(names[index :: plan.count])
        | "All pairs" >> beam.Map(lambda name: (name, _pairs(folder, name)))
        | "Write" >> beam.ParDo(WriteShard(plan.job)).with_outputs(REPORT, main="nothing")
    )
    write_report((written[REPORT],), plan.report_path("write", index))


_BUILDERS: dict[str, Callable[[beam.Pipeline, Plan, int], None]] = {
    "sample": _sample,
    "vocabulary": _vocabulary,
    "encode": _encode,
    "write": _write,
}


def _keeper(folder: Place, index: int, what: str) -> Callable:
    """A step that leaves what belongs to a key in a file of the part's."""

    def keep(key: str, value: object) -> None:
        kept = value if isinstance(value, bytes) else pickle.dumps(list(value))  # type: ignore[call-overload]
        path = folder / f"{key}.{index}.{what}"
        beside = path.with_name(f".{path.name}")
        beside.write_bytes(kept)
        beside.replace(path)  # type: ignore[arg-type]

    return keep


def _left(folder: Place, side: str) -> Iterator[bytes]:
    """The samples of a side that all parts left."""
    for path in folder.glob(f"{side}.*.sentences"):
        yield path.read_bytes()


def _pairs(folder: Place, shard: str) -> list[bytes]:
    """The packed pairs of a shard that all parts left."""
    paths = folder.glob(f"{shard}.*.pairs")
    return [packed for path in paths for packed in pickle.loads(path.read_bytes())]
