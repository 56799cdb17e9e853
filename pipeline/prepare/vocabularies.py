"""Vocabularies: the sample, the training, the counts.

SentencePiece is of Kudo & Richardson 2018, its unigram model of Kudo 2018, and byte-pair encoding
of Sennrich et al. 2016.
"""

import collections
import heapq
import io
import re
from collections.abc import Iterable

import numpy as np
import sentencepiece

from models.errors import UserError
from models.special_ids import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from models.vocabulary_pieces import MARKS, byte_pieces, dump_pieces
from pipeline.experiment import VocabularySection
from pipeline.places import Place
from pipeline.prepare.hashing import DIGEST_BYTES, SeededHash
from pipeline.prepare.sides import Side
from pipeline.prepare.tokenizers import Tokenizer, split_by
from pipeline.workspace import write_text

# Part of the result: another number gives other pieces, so it does not follow the machine.
_TRAINER_THREADS = 4
_LONGEST_SENTENCE_BYTES = 1 << 16

SENTENCEPIECE_KINDS = ("unigram", "bpe")


class SentenceSample:
    """The sentences with the smallest hashes: a fair sample that no order changes.

    It holds a sentence once, however often it is added, and never more than twice `size`
    of them. Merging the samples of the parts of a corpus gives the sample of the whole.

    Args:
        size: Sentences to keep.
        order: The hash.
    """

    def __init__(self, size: int, order: SeededHash):
        self._size = size
        self._order = order
        self._ranked: set[bytes] = set()

    def add(self, sentences: Iterable[bytes]) -> None:
        """Add sentences."""
        digest = self._order.digest
        self._add_ranked(digest(sentence) + sentence for sentence in sentences)

    def merge(self, other: "SentenceSample") -> None:
        """Add the sample of another part of the corpus."""
        self._add_ranked(other._ranked)

    def _add_ranked(self, ranked: Iterable[bytes]) -> None:
        self._ranked.update(ranked)
        if len(self._ranked) > 2 * self._size:
            self._ranked = set(heapq.nsmallest(self._size, self._ranked))

    def sentences(self) -> list[bytes]:
        """The sentences kept, in the order of their hashes."""
        return [ranked[DIGEST_BYTES:] for ranked in sorted(self._ranked)[: self._size]]


def join_sentences(sentences: Iterable[bytes]) -> bytes:
    """Sentences as one element of the pipeline, which moves quicker than thousands."""
    return b"\n".join(sentences)


def split_sentences(joined: bytes) -> list[bytes]:
    """The sentences that `join_sentences` joined; none of them is empty or holds a line end."""
    return joined.split(b"\n") if joined else []


def train_vocabulary(sentences: list[bytes], options: VocabularySection, side: Side) -> bytes:
    """Make a vocabulary.

    The same sentences in the same order and the same options give the same bytes.

    Args:
        sentences: UTF-8, at least one.
        options: The experiment's section.
        side: What it is a vocabulary of.

    Returns:
        The bytes of its file.

    Raises:
        UserError: If there is no vocabulary of the size asked for.
    """
    if side.kind in SENTENCEPIECE_KINDS:
        return _train_sentencepiece(sentences, options, side)
    if side.kind == "byte":
        return dump_pieces(side.kind, byte_pieces())
    return dump_pieces(side.kind, _commonest(sentences, side))


def _commonest(sentences: list[bytes], side: Side) -> list[str]:
    """The separators, then the pieces of a table, the commonest first."""
    counts = collections.Counter(split_by(side.kind, sentences))
    for separator in side.separators:
        del counts[separator]
    # Equally common ones in the order of their characters, whatever the sample's order.
    ranked = sorted(counts, key=lambda piece: (-counts[piece], piece))
    pieces = [*side.separators, *ranked]
    return pieces if side.size is None else pieces[: side.size - len(MARKS)]


def _train_sentencepiece(sentences: list[bytes], options: VocabularySection, side: Side) -> bytes:
    model = io.BytesIO()
    try:
        _check_text(sentences, options)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            **_trainer_options(options, side),
        )
    except RuntimeError as error:
        field = "target_size" if side.vocabulary == "target" else "source_size"
        raise UserError(
            f"vocabulary.{field}: no {side.kind} vocabulary of {side.size} pieces comes of "
            f"{len(sentences)} {side.vocabulary} sentences: {_explanation(error)}"
        ) from None
    return model.getvalue()


def _check_text(sentences: list[bytes], options: VocabularySection) -> None:
    """Raise what SentencePiece ends the process for: that normalising leaves no text."""
    normalizer = sentencepiece.SentencePieceNormalizer(rule_name=options.normalization)
    if not any(normalizer.normalize(sentence.decode()).strip() for sentence in sentences):
        raise RuntimeError("normalising leaves no text")


def _trainer_options(options: VocabularySection, side: Side) -> dict:
    return {
        "vocab_size": side.size,
        "hard_vocab_limit": False,
        "model_type": side.kind,
        "user_defined_symbols": list(side.separators),
        "character_coverage": options.character_coverage,
        "byte_fallback": options.byte_fallback,
        "normalization_rule_name": options.normalization,
        "pad_id": PAD_ID,
        "unk_id": UNKNOWN_ID,
        "bos_id": BEGIN_ID,
        "eos_id": END_ID,
        "shuffle_input_sentence": False,
        "max_sentence_length": _LONGEST_SENTENCE_BYTES,
        "num_threads": _TRAINER_THREADS,
        "minloglevel": 3,
    }


def _explanation(error: RuntimeError) -> str:
    """SentencePiece's message, in the words of the experiment where it is the usual one."""
    too_few = re.search(r"smaller than required_chars\. \d+ vs (\d+)", str(error))
    if too_few:
        return (
            f"their characters and the marks alone need {too_few[1]}; raise it to at least that, "
            "or lower vocabulary.character_coverage"
        )
    return f"SentencePiece gave up ({error}); name more or other sentences in data.train"


def write_counts(path: Place, tokenizer: Tokenizer, counts: np.ndarray, records: int) -> None:
    """Write unigram counts: one line an id, in the order of ids, `piece TAB count`.

    Records hold no end mark, but a model has to predict one after each sentence, and noise
    drawn from counts without it would never teach where not to end. So it is counted.

    Args:
        path: The file.
        tokenizer: Gives the pieces.
        counts: int64[vocabulary], or shorter where the last ids do not occur.
        records: Sentences that the counts are of.
    """
    padded = np.zeros(tokenizer.size, np.int64)
    padded[: len(counts)] = counts
    padded[END_ID] = records
    # A piece may be a line end or a tab itself, and is then spelled out.
    lines = (
        f"{_spelled(piece)}\t{count}\n"
        for piece, count in zip(tokenizer.pieces(), padded, strict=True)
    )
    write_text(path, "".join(lines))


def _spelled(piece: str) -> str:
    return piece if piece.isprintable() else piece.encode("unicode_escape").decode()
