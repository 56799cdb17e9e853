"""The steps of the Beam pipeline, each a DoFn over thousands of pairs at a time."""

import abc
import collections
from collections.abc import Iterable, Iterator

from models.errors import UserError
from models.separators import QUESTION
from pipeline.prepare.cleaning import LengthRules
from pipeline.prepare.clips import ClipCheck, ClipStore
from pipeline.prepare.engine import beam
from pipeline.prepare.features import PictureStore
from pipeline.prepare.hashing import SeededHash, bucket
from pipeline.prepare.inspection import BLOCK_LINES
from pipeline.prepare.job import Job
from pipeline.prepare.milestones import SAMPLING, TRAINING, WRITING
from pipeline.prepare.pictures import PictureCheck
from pipeline.prepare.reading import Block
from pipeline.prepare.reasons import Dropped
from pipeline.prepare.report import Report, VocabularyFacts
from pipeline.prepare.selection import TRAIN, Pair
from pipeline.prepare.sentences import picture_of
from pipeline.prepare.shards import (
    EncodedPair,
    ShardWriter,
    pack_ids,
    pack_pairs,
    unpack_pairs,
)
from pipeline.prepare.tokenizers import Tokenizer, make_tokenizer
from pipeline.prepare.vocabularies import (
    SentenceSample,
    join_sentences,
    split_sentences,
    train_vocabulary,
)
from pipeline.workspace import file_fingerprint, vocabulary_file

REPORT = "report"
COUNTERS = "prepare"


class Step(beam.DoFn, abc.ABC):
    """Contract of a step: `work` yields results and fills a report.

    What the user has to mend travels in the report. Raised, it would come out of the
    runner wrapped in its traceback, and print another on the worker's standard error.

    Args:
        job: The run.
    """

    def __init__(self, job: Job):
        self.job = job

    @abc.abstractmethod
    def work(self, element, report: Report, *side_inputs) -> Iterator:
        """Do one element's work.

        Args:
            element: The element.
            report: To be filled.
            *side_inputs: What the pipeline passes beside the element.

        Yields:
            Elements for the next step.
        """

    def process(self, element, *side_inputs):
        """Run `work`, then send its report along and add it to Beam's counters."""
        report = Report()
        try:
            yield from self.work(element, report, *side_inputs)
        except UserError as error:
            report.problems.add(str(error))
        except OSError as error:
            where = error.filename or self.job.folder
            report.problems.add(f"{where}: {error.strerror}, while preparing records")
        count(report)
        yield beam.pvalue.TaggedOutput(REPORT, report)


def count(report: Report) -> None:
    """Add a report to Beam's counters."""
    for name, number in report.counters().items():
        beam.metrics.Metrics.counter(COUNTERS, name).inc(number)


class SampleSentences(Step):
    """`Block → side, joined sentences` of its pairs in the training split."""

    def setup(self):
        """Make what does not travel."""
        self._selection = self.job.selection()

    def work(self, element: Block, report: Report):
        """Give the distinct sentences of either side."""
        # Its own report is not wanted: the encoding step reads the same lines again.
        pairs = [p for p in self._selection.pairs(element, Report()) if p.split == TRAIN]
        for side in self.job.sides:
            yield side, join_sentences(dict.fromkeys(self.job.texts(side, pairs)))
        self.job.milestones.reach(SAMPLING, element.name)


def empty_sample(job: Job) -> SentenceSample:
    """A sample of the size the experiment asks for."""
    return SentenceSample(job.vocabulary.sample_sentences, SeededHash(job.seed, "sample"))


class BottomSentences(beam.CombineFn):
    """Gathers joined sentences into the sample of the whole.

    Args:
        job: The run.
    """

    def __init__(self, job: Job):
        self._job = job

    def create_accumulator(self):
        """An empty sample."""
        return empty_sample(self._job)

    def add_input(self, mutable_accumulator, element):
        """Add one block's sentences."""
        mutable_accumulator.add(split_sentences(element))
        return mutable_accumulator

    def merge_accumulators(self, accumulators):
        """Add up samples."""
        merged = self.create_accumulator()
        for sample in accumulators:
            merged.merge(sample)
        return merged

    def extract_output(self, accumulator):
        """The joined sentences of the sample."""
        return join_sentences(accumulator.sentences())


class TrainVocabulary(Step):
    """`name, (side, joined sentences)s → name, model`, written to the job's folder too."""

    def work(self, element: tuple[str, Iterable[tuple[str, bytes]]], report: Report):
        """Train on the samples of the sides that share the vocabulary."""
        name, samples = element
        sentences = [
            sentence for _, joined in sorted(samples) for sentence in split_sentences(joined)
        ]
        if not sentences:
            return  # Nothing is left of the split; the command says why.
        side = self.job.vocabularies[name]
        model = train_vocabulary(sentences, self.job.vocabulary, side)
        path = self.job.folder / vocabulary_file(name)
        path.write_bytes(model)
        report.vocabularies[name] = VocabularyFacts(
            size=make_tokenizer(side.kind, model).size,
            hash=file_fingerprint(path),
            sentences=len(sentences),
        )
        yield name, model
        self.job.milestones.reach(TRAINING, name)


class EncodeBlock(Step):
    """`Block, models → shard, packed pairs`."""

    def setup(self):
        """Make what does not travel."""
        self._selection = self.job.selection()
        source = self.job.sides.get("source")
        self._rules = LengthRules(
            self.job.data.cleaning,
            self.job.task,
            keep_blank=self.job.data.order == "corpus",
            keep_end=source is not None and QUESTION in source.separators,
        )
        self._order = SeededHash(self.job.seed, "order")
        self._tokenizers: dict[str, Tokenizer] = {}
        check = ClipCheck if self.job.reads_clips else PictureCheck
        self._check_picture = (
            check(self.job.inputs, self.job.data.pictures) if self.job.reads_pictures else None
        )

    def work(self, element: Block, report: Report, models: dict[str, bytes]):
        """Tokenise, hold to the rules on lengths, deal out to the shards."""
        pairs = list(self._selection.pairs(element, report))
        if self._has_vocabularies(models):
            shards = collections.defaultdict(list)
            for pair in self._encode(pairs, element.input, report):
                shards[pair[0]].append(pair[1])
            for name, encoded in shards.items():
                yield name, pack_pairs(encoded)
        self.job.milestones.reach(WRITING, element.name)

    def _has_vocabularies(self, models: dict[str, bytes]) -> bool:
        """Whether there is anything to encode by: none if no training pair was left."""
        sides = self.job.sides
        if not self._tokenizers and set(self.job.vocabularies) <= set(models):
            self._tokenizers = {
                name: make_tokenizer(side.kind, models[side.vocabulary])
                for name, side in sides.items()
            }
        return bool(self._tokenizers)

    def _encode(
        self, pairs: list[Pair], input_index: int, report: Report
    ) -> Iterator[tuple[str, EncodedPair]]:
        sources, targets = self._ids("source", pairs), self._ids("target", pairs)
        for pair, source, target in zip(pairs, sources, targets, strict=True):
            try:
                self._rules.check(source, target)
                if self._check_picture:
                    name = picture_of(pair.source)
                    facts = self._check_picture(input_index, name)
                    report.pictures[input_index, name] = facts
                    if facts.dropped:
                        raise Dropped(facts.dropped)
                    if facts.frames is not None:
                        source = list(range(facts.frames))
                        self._rules.check_alignment(source, target)
                if pair.split == TRAIN:
                    source, target, cut = self._rules.apply(source, target)
                    report.tallies[input_index, TRAIN].truncated += cut
            except Dropped as dropped:
                report.drop(input_index, pair.split, dropped.reason, pair.line)
            else:
                yield self._placed(pair, input_index, source, target)

    def _ids(self, side: str, pairs: list[Pair]) -> list[list[int]]:
        """Ids of one side of pairs; none of a side that the task does not have."""
        if side not in self._tokenizers:
            return [[] for _ in pairs]
        return self._tokenizers[side].encode(self.job.texts(side, pairs))

    def _placed(
        self, pair: Pair, input_index: int, source: list[int], target: list[int]
    ) -> tuple[str, EncodedPair]:
        # No sentence holds a line end, so that different pairs never join to the same bytes.
        digest = self._order.digest(pair.source + b"\n" + pair.target)
        if self.job.reads_pictures:
            # To one shard with what else is about the picture, which is stored there once.
            dealt = self._order.digest(picture_of(pair.source))
            if "source" in self.job.sides:
                digest = dealt + digest  # and next to it, for batches to keep together
        elif self.job.data.order == "shuffled":
            dealt = digest
        else:
            # Lines that stay in their order go to one shard together.
            dealt = self._order.digest(f"{input_index} {pair.line // BLOCK_LINES}".encode())
        names = self.job.shards[pair.split].names
        encoded = EncodedPair(
            digest, input_index, pair.line, pack_ids(source), pack_ids(target),
            pair.source, pair.target,
        )  # fmt: skip
        return names[bucket(dealt, len(names))], encoded


class WriteShard(Step):
    """`shard, packed pairs → a record file` in the job's folder."""

    def setup(self):
        """Make what does not travel."""
        order = SeededHash(self.job.seed, "order")
        store = ClipStore if self.job.reads_clips else PictureStore
        pictures = (
            store(self.job.inputs, self.job.data.pictures, self.job.folder)
            if self.job.reads_pictures
            else None
        )
        self._writers = {
            name: ShardWriter(options, self.job.folder, self.job.input_names, order, pictures)
            for options in self.job.shards.values()
            for name in options.names
        }

    def work(self, element: tuple[str, Iterable[bytes]], report: Report):
        """Write one shard."""
        name, packed = element
        report.add(self._writers[name].write(name, unpack_pairs(packed)))
        self.job.milestones.reach(WRITING, name)
        yield from ()
