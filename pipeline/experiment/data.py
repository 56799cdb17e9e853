"""The sections data and vocabulary: corpora, and how they become records."""

from typing import Literal

import pydantic
from pydantic import Field

from pipeline.experiment.section import (
    Fraction,
    PositiveInt,
    Section,
    ShardCount,
    VocabularySize,
)

# Formats that keys of an input belong to; in all others they have to stay as they are.
_FORMATS_OF_KEYS = {
    "source_column": ("tsv",),
    "target_column": ("tsv",),
    "source_key": ("jsonl", "documents"),
    "target_key": ("jsonl", "documents"),
    "question_key": ("documents",),
    "context_turns": ("dialogue",),
    "column": ("conllu",),
    "unit": ("conllu",),
    "label": ("conllu",),
    "images": ("coco", "tsv", "jsonl", "documents"),
}


class CorpusFile(Section):
    """One input of a split.

    `parallel` reads `source` and `target`, two files with a sentence a line. All others read
    `path`: `tsv` and `jsonl` have a pair a line, `text` has a text a line and no source, `conllu`
    (Universal Dependencies) has a sentence or a document in many lines, `babi` stories with
    questions in them, `dialogue` a turn a line and blank lines between conversations, `documents`
    is `jsonl` whose texts may have many lines, and questions about them, and `coco` captions of
    pictures in one JSON document. Names ending in `.gz` are read as gzip; names ending in `.zip`
    are not read.
    """

    format: Literal[
        "parallel", "tsv", "jsonl", "text", "conllu", "babi", "dialogue", "documents", "coco"
    ] = "parallel"
    source: str | None = Field(None, description="File of source sentences (parallel).")
    target: str | None = Field(None, description="File of target sentences (parallel).")
    path: str | None = Field(None, description="The file (all but parallel).")
    source_column: PositiveInt = Field(1, description="Column of the source, from 1 (tsv).")
    target_column: PositiveInt = Field(2, description="Column of the target, from 1 (tsv).")
    source_key: str = Field("source", description="Key of the source (jsonl, documents).")
    target_key: str = Field("target", description="Key of the target (jsonl, documents).")
    question_key: str | None = Field(
        None, description="Key of the question about the source; none if null (documents)."
    )
    context_turns: PositiveInt = Field(
        3, description="Turns before a reply that are its source, at most (dialogue)."
    )
    column: Literal["lemma", "upos", "xpos", "feats", "deprel"] = Field(
        "upos", description="Column of the tags (conllu)."
    )
    unit: Literal["sentence", "document"] = Field("sentence", description="A record (conllu).")
    label: Literal["genre"] | None = Field(
        None, description="Target in place of tags: the id's part before its first dash (conllu)."
    )
    images: str | None = Field(
        None, description="Folder of the pictures; the file's own if null (tasks with pictures)."
    )

    @pydantic.model_validator(mode="after")
    def _has_the_paths_of_its_format(self):
        wanted = ("source", "target") if self.format == "parallel" else ("path",)
        for name in ("source", "target", "path"):
            given = getattr(self, name) is not None
            if name in wanted and not given:
                raise ValueError(f"format {self.format!r} needs the key {name!r}")
            if name not in wanted and given:
                raise ValueError(f"format {self.format!r} does not take the key {name!r}")
        for name, formats in _FORMATS_OF_KEYS.items():
            default = type(self).model_fields[name].default
            if self.format not in formats and getattr(self, name) != default:
                raise ValueError(
                    f"format {self.format!r} does not take the key {name!r}, which is of "
                    f"{' and '.join(formats)}; remove it, or change the format"
                )
        if self.format == "conllu" and self.unit == "document" and self.label is None:
            raise ValueError("unit 'document' has no tags; set label to genre, or unit to sentence")
        return self


class HoldOut(Section):
    """Shares of the training input set aside when no valid or test input is named.

    A sentence goes by the hash of one side, so that no sentence of that side stands in
    two splits.
    """

    valid: Fraction = Field(0.0, description="Share that becomes the valid split.")
    test: Fraction = Field(0.0, description="Share that becomes the test split.")
    side: Literal["source", "target"] = Field("source", description="Side that is hashed.")


class PictureOptions(Section):
    """The network that makes features of pictures, when records are made or while it learns."""

    backbone: str = Field(
        "EfficientNetLite0",
        description="That network, small, tiny, or one of keras.applications by name.",
    )
    weights: str | None = Field(
        "imagenet", description="imagenet, path or URL of a Keras weights file, or null for none."
    )
    max_pixels: PositiveInt = Field(
        50_000_000, description="Of a picture; larger ones are not decoded."
    )
    batch_size: PositiveInt = Field(32, description="Pictures that go through it at once.")
    fine_tune: bool = Field(False, description="Train it too, from its weights.")

    @pydantic.model_validator(mode="after")
    def _small_learns(self):
        untaught = self.backbone in ("small", "tiny")
        if untaught and (self.weights is not None or not self.fine_tune):
            raise ValueError(
                f"backbone {self.backbone!r} has no weights that it could start from; set weights "
                f"to null and fine_tune to true, so that it learns"
            )
        return self


class Cleaning(Section):
    """What `prepare` drops. Lengths are in pieces, end marks not counted.

    Pairs that are empty, not UTF-8 or hold control characters are dropped from every split;
    the other rules hold for the training split alone, so that a test set stays whole. The ratio
    is a rule of translation.
    """

    max_source_length: PositiveInt = Field(100, description="Pieces of a source sentence.")
    max_target_length: PositiveInt = Field(100, description="Pieces of a target sentence.")
    too_long: Literal["drop", "truncate"] = Field("drop", description="Fate of longer ones.")
    max_length_ratio: float = Field(6.0, ge=1.0, description="Longer side over shorter side.")
    drop_identical: bool = Field(False, description="Drop pairs whose two sides are equal.")
    drop_duplicates: bool = Field(True, description="Keep the first of equal pairs.")


class DataSection(Section):
    """The corpora and how they become records."""

    source_language: str = Field("source", description="Of the source; a label only.")
    target_language: str = Field("target", description="Of the target; chooses BLEU's tokenizer.")
    train: list[CorpusFile] = Field(min_length=1, description="Inputs of the training split.")
    valid: list[CorpusFile] = Field([], description="Inputs of the valid split.")
    test: list[CorpusFile] = Field([], description="Inputs of the test split.")
    hold_out: HoldOut = HoldOut()
    order: Literal["shuffled", "corpus"] = Field(
        "shuffled",
        description="corpus keeps lines, blank ones too, in their order, for language models.",
    )
    cleaning: Cleaning = Cleaning()
    pictures: PictureOptions = PictureOptions()
    folder: str | None = Field(
        None, description="Path or URL of what prepare writes; in the workspace if null."
    )
    shards: ShardCount = Field(8, description="Record files of the training split.")
    evaluation_shards: ShardCount = Field(1, description="Record files of valid and of test.")
    compression: Literal["none", "gzip"] = Field("none", description="Of the record files.")

    @property
    def inputs(self) -> list[CorpusFile]:
        """The inputs of all splits."""
        return [*self.train, *self.valid, *self.test]

    @pydantic.model_validator(mode="after")
    def _one_origin_for_each_split(self):
        for name in ("valid", "test"):
            if getattr(self, name) and getattr(self.hold_out, name):
                raise ValueError(f"{name} has inputs and a hold_out share; keep one of the two")
        if self.hold_out.valid + self.hold_out.test >= 1.0:
            raise ValueError("hold_out leaves nothing for training; lower its shares")
        return self

    @pydantic.model_validator(mode="after")
    def _repeats_of_a_corpus_in_order(self):
        if self.order == "corpus" and self.cleaning.drop_duplicates:
            raise ValueError(
                "order 'corpus' keeps lines that come again; set cleaning.drop_duplicates to false"
            )
        return self


class VocabularySection(Section):
    """Vocabularies made from a bounded sample of the training split.

    `unigram` and `bpe` are SentencePiece's. `word` parts at ASCII white space, `character` and
    `byte` not at all; these three take texts as they are, and `character_coverage`,
    `byte_fallback` and `normalization` do not touch them.
    """

    source_size: VocabularySize = Field(8000, description="Pieces at most, marks included.")
    target_size: VocabularySize = Field(8000, description="Likewise; ignored when shared.")
    shared: bool = Field(False, description="One vocabulary of source_size for both sides.")
    algorithm: Literal["unigram", "bpe", "word", "character", "byte"] = "unigram"
    character_coverage: float = Field(0.9995, ge=0.98, le=1.0, description="Share of characters.")
    byte_fallback: bool = Field(False, description="Spell unknown characters as bytes.")
    normalization: Literal["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"] = "nmt_nfkc"
    sample_sentences: PositiveInt = Field(200_000, description="Sentences sampled a side.")
