"""The Beam pipeline, top to bottom.

blocks of training inputs ─▶ SampleSentences ─▶ BottomSentences ─▶ TrainVocabulary
│ models
blocks of all inputs ─────────────────────────▶ EncodeBlock ◀───────────┘
│ shard, pairs
GroupByKey ─▶ WriteShard ─▶ files
every step ─▶ Report ─▶ one sum ─▶ one file
"""

import pickle

from pipeline.places import Place
from pipeline.prepare.engine import beam
from pipeline.prepare.job import Job
from pipeline.prepare.milestones import SAMPLING, TRAINING, WRITING
from pipeline.prepare.reading import Block
from pipeline.prepare.report import Report, merge
from pipeline.prepare.selection import TRAIN
from pipeline.prepare.shards import pack_pairs
from pipeline.prepare.stages import (
    REPORT,
    BottomSentences,
    EncodeBlock,
    SampleSentences,
    TrainVocabulary,
    WriteShard,
)


def build(pipeline: beam.Pipeline, job: Job, blocks: list[Block]) -> None:
    """Add all steps to a pipeline.

    Args:
        pipeline: An empty pipeline.
        job: The run.
        blocks: All blocks of all inputs.
    """
    sampled = sample_sentences(pipeline, job, training_blocks(job, blocks))
    trained = train_vocabularies(sampled.sentences, job)
    encoded = encode_pairs(pipeline, job, blocks, trained.models)
    written = write_shards(encoded.pairs, job)
    reports = (sampled[REPORT], trained[REPORT], encoded[REPORT], written[REPORT])
    write_report(reports, job.report_path)


def training_blocks(job: Job, blocks: list[Block]) -> list[Block]:
    """The blocks whose pairs may belong to the training split."""
    return [block for block in blocks if job.inputs[block.input][0] == TRAIN]


def amounts(job: Job, blocks: list[Block]) -> dict[str, int]:
    """Milestones that each stage of the pipeline reaches when it is done."""
    return {
        SAMPLING: len(training_blocks(job, blocks)),
        TRAINING: len(job.vocabularies),
        WRITING: len(blocks) + sum(len(shards.names) for shards in job.shards.values()),
    }


def sample_sentences(pipeline: beam.Pipeline, job: Job, blocks: list[Block]):
    """`blocks → side, joined sentences` of a block, as `sentences`, and reports."""
    return (
        pipeline
        | "Training blocks" >> beam.Create(blocks)
        | "Sample" >> beam.ParDo(SampleSentences(job)).with_outputs(REPORT, main="sentences")
    )


def train_vocabularies(sentences: beam.PCollection, job: Job):
    """`side, joined sentences → name, model`, as `models`, and reports."""
    names = {name: side.vocabulary for name, side in job.sides.items()}
    return (
        sentences
        | "Bottom k" >> beam.CombinePerKey(BottomSentences(job))
        | "By vocabulary" >> beam.Map(lambda sample: (names[sample[0]], sample))
        | "Sides together" >> beam.GroupByKey()
        | "Train" >> beam.ParDo(TrainVocabulary(job)).with_outputs(REPORT, main="models")
    )


def encode_pairs(pipeline: beam.Pipeline, job: Job, blocks: list[Block], models: beam.PCollection):
    """`blocks → shard, packed pairs`, as `pairs`, and reports."""
    return (
        pipeline
        | "Blocks" >> beam.Create(blocks)
        | "Encode"
        >> beam.ParDo(EncodeBlock(job), beam.pvalue.AsDict(models)).with_outputs(
            REPORT, main="pairs"
        )
    )


def write_shards(pairs: beam.PCollection, job: Job):
    """`shard, packed pairs → files` and reports; a shard without pairs is a file too."""
    names = [name for shards in job.shards.values() for name in shards.names]
    none = pairs.pipeline | "Every shard" >> beam.Create([(name, pack_pairs([])) for name in names])
    return (
        (pairs, none)
        | "Pairs and shards" >> beam.Flatten()
        | "By shard" >> beam.GroupByKey()
        | "Write" >> beam.ParDo(WriteShard(job)).with_outputs(REPORT, main="nothing")
    )


def write_report(reports: tuple[beam.PCollection, ...], path: Place) -> None:
    """Add up all reports and leave the sum in a file."""
    (
        reports
        | "All reports" >> beam.Flatten()
        | "Add up" >> beam.CombineGlobally(merge)
        | "Keep" >> beam.Map(lambda report: path.write_bytes(pickle.dumps(report)))
    )


def read_report(path: Place) -> Report:
    """The sum that `write_report` left."""
    return pickle.loads(path.read_bytes())
