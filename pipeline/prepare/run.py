"""The whole stage: from corpus files to a published data folder."""

import dataclasses
import time

import rich.console

from models.errors import UserError
from pipeline.experiment import DataSection, Experiment
from pipeline.experiment_file import record_experiment
from pipeline.places import UrlPath, place
from pipeline.prepare.encodings import advice
from pipeline.prepare.engines import Engine, make_engine
from pipeline.prepare.inspection import HEAD_BYTES
from pipeline.prepare.job import Job, make_job
from pipeline.prepare.manifest import make_manifest
from pipeline.prepare.milestones import READING
from pipeline.prepare.picture_files import forget_copies
from pipeline.prepare.picture_list import describe_pictures, write_list
from pipeline.prepare.pipeline import amounts, read_report
from pipeline.prepare.plan import Input, inspect_inputs, list_splits
from pipeline.prepare.progress import Progress
from pipeline.prepare.reasons import DESCRIPTIONS, INVALID_UTF8
from pipeline.prepare.report import Report
from pipeline.prepare.selection import TRAIN
from pipeline.prepare.sides import Side
from pipeline.prepare.summary import show_summary
from pipeline.prepare.tokenizers import Tokenizer, make_tokenizer
from pipeline.prepare.vocabularies import write_counts
from pipeline.workspace import (
    Workspace,
    published_folder,
    remove_folder,
    vocabulary_file,
    write_json,
)


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What a run of the stage gives.

    Attributes:
        manifest: As published.
        counters: Beam's, by `<split> <what>`.
        seconds: Time of each stage that was shown.
        total_seconds: Time from first to last.
    """

    manifest: dict
    counters: dict[str, int]
    seconds: dict[str, float]
    total_seconds: float


def prepare(experiment: Experiment, workspace: Workspace, console: rich.console.Console) -> dict:
    """Turn the experiment's corpora into records and vocabularies.

    `workspace.data` is replaced when all is written, and otherwise left as it was. The same
    corpora, sections and seed give the same files, byte for byte.

    Args:
        experiment: The experiment.
        workspace: Where `data` is published.
        console: Receives progress and, at the end, the counts.

    Returns:
        The manifest.

    Raises:
        UserError: If an input or a setting needs mending.
        RuntimeError: If the pipeline fails for another reason.
    """
    prepared = prepare_timed(experiment, workspace, console)
    record_experiment(experiment, workspace)
    show_summary(
        console,
        prepared.manifest,
        prepared.counters,
        prepared.seconds,
        prepared.total_seconds,
    )
    console.print(f"records, vocabularies and manifest are in {workspace.data}", soft_wrap=True)
    return prepared.manifest


def prepare_timed(
    experiment: Experiment, workspace: Workspace, console: rich.console.Console
) -> Prepared:
    """`prepare` without the tables at its end, for those who want the times."""
    started = time.monotonic()
    progress = Progress(console)
    with (
        workspace.alone("prepare"),
        published_folder(workspace.data, workspace.manifest.name) as folder,
        progress.shown(),
    ):
        job = make_job(experiment, workspace, folder)
        try:
            manifest, counters = _write(experiment, job, progress)
            write_json(folder / workspace.manifest.name, manifest)
        finally:  # They need not lie in the folder, which is gone if this fails.
            remove_folder(job.logs.parent)
        remove_folder(job.scratch)
    forget_copies()
    return Prepared(manifest, counters, progress.seconds, time.monotonic() - started)


def _write(experiment: Experiment, job: Job, progress: Progress) -> tuple[dict, dict[str, int]]:
    """Write all but the manifest; give that, and Beam's counters."""
    engine = make_engine(experiment, job)
    inputs = _inspect(job, progress)
    counters, report = _run(engine, job, inputs, progress)
    check_report(experiment.data, inputs, report)
    _write_all_counts(job, report)
    if job.reads_pictures:
        write_list(job.folder, report.pictures)
    return make_manifest(experiment, inputs, report), counters


def _inspect(job: Job, progress: Progress) -> list[Input]:
    progress.expect({READING: len(job.inputs)})
    inputs = []
    for inspected in inspect_inputs(job.data, job.unpacked):
        inputs.append(inspected)
        job.milestones.reach(READING, inspected.name)
        progress.update(job.milestones.count())
    return inputs


def _run(
    engine: Engine, job: Job, inputs: list[Input], progress: Progress
) -> tuple[dict[str, int], Report]:
    blocks = [block for inspected in inputs for block in inspected.blocks()]
    progress.expect(amounts(job, blocks))

    def poll() -> None:
        # At a URL each look would be a request to be paid for.
        if not isinstance(job.folder, UrlPath):
            progress.update(job.milestones.count())

    counters = engine(job, blocks, poll)
    report = read_report(job.report_path)
    if report.problems:
        raise UserError("\n".join(sorted(report.problems)))
    progress.update(job.milestones.count())
    # Some runners keep no counters; the report has the same numbers.
    return counters or report.counters(), report


def check_report(data: DataSection, inputs: list[Input], report: Report) -> None:
    """Hold a run to having left pairs in every split.

    Raises:
        UserError: If a split has none; it says what became of them.
    """
    for split in list_splits(data):
        tally = report.split_tally(split)
        if not tally.pairs_in and split == TRAIN:
            raise UserError(
                "data.hold_out: its shares leave no pair for train; lower them, or name more "
                "inputs in data.train"
            )
        if not tally.pairs_in:
            raise UserError(
                f"data.hold_out.{split}: a share of {getattr(data.hold_out, split)} leaves no "
                f"pair for {split}; raise it, or name inputs in data.{split}"
            )
        if not tally.pairs_out:
            raise UserError(
                f"data.{split}: none of {tally.pairs_in} pairs is left. Dropped: "
                + "; ".join(_losses(split, inputs, report))
            )


def _losses(split: str, inputs: list[Input], report: Report) -> list[str]:
    losses = []
    for inspected in inputs:
        for reason, drops in report.tallies[inspected.index, split].dropped.items():
            files = " and ".join(facts.path for facts in inspected.files)
            lines = ", ".join(map(str, drops.first_lines))
            loss = f"{drops.pairs} for {reason} ({DESCRIPTIONS[reason]}), {files} line {lines}"
            losses.append(loss + _details(inspected, reason, report))
    return losses


def _details(inspected: Input, reason: str, report: Report) -> str:
    """What helps to find the cause: pictures by name, advice on encodings."""
    if reason == INVALID_UTF8:
        return _advice(inspected)
    named = describe_pictures(report.pictures, inspected.index)["dropped"].get(reason)
    return f": {', '.join(named['first'])}" if named else ""


def _advice(inspected: Input) -> str:
    facts = inspected.files[0]
    with place(facts.text_path).open("rb") as file:
        return f". {advice(facts.path, file.read(HEAD_BYTES))}"


def _write_all_counts(job: Job, report: Report) -> None:
    """Write the unigram counts of each side, and of both together where they share pieces."""
    for side in job.sides:
        tokenizer = _tokenizer(job, job.sides[side])
        counts = report.statistics["train", side]
        write_counts(job.folder / f"{side}.counts.tsv", tokenizer, counts.pieces, counts.records)
    if job.vocabulary.shared:
        both = dataclasses.replace(report.statistics["train", "source"])
        both.add(report.statistics["train", "target"])
        write_counts(job.folder / "shared.counts.tsv", tokenizer, both.pieces, both.records)


def _tokenizer(job: Job, side: Side) -> Tokenizer:
    file = (job.folder / vocabulary_file(side.vocabulary)).read_bytes()
    return make_tokenizer(side.kind, file)
