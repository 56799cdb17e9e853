import random

import numpy as np
import pytest

from models.errors import UserError
from models.special_ids import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from pipeline.experiment import VocabularySection
from pipeline.prepare.hashing import SeededHash
from pipeline.prepare.vocabularies import (
    SentenceSample,
    Tokenizer,
    join_sentences,
    split_sentences,
    train_vocabulary,
    vocabulary_names,
    write_counts,
)
from tests.hostile_strings import FRAGMENTS, hostile_strings


def gather(*parts, size=20, seed=1):
    sample = SentenceSample(size, SeededHash(seed, "sample"))
    for part in parts:
        sample.add(part)
    return sample


def sample_of(*parts, **keys):
    return gather(*parts, **keys).sentences()


SENTENCES = [b"sentence %d" % number for number in range(300)]


def test_the_sample_is_the_same_in_any_order_and_cut():
    shuffled = random.Random(1).sample(SENTENCES, len(SENTENCES))
    whole = sample_of(SENTENCES)
    assert len(whole) == 20
    assert sample_of(shuffled) == whole
    assert sample_of(*(shuffled[start : start + 7] for start in range(0, 300, 7))) == whole
    merged = gather(shuffled[:100])
    merged.merge(gather(shuffled[100:]))
    assert merged.sentences() == whole


def test_the_sample_holds_a_sentence_once():
    assert sorted(sample_of([b"a", b"b"], [b"a"])) == [b"a", b"b"]


def test_another_seed_samples_others():
    assert sample_of(SENTENCES) != sample_of(SENTENCES, seed=2)


def test_the_sample_is_spread_over_the_corpus():
    numbers = [int(sentence.split()[1]) for sentence in sample_of(SENTENCES, size=100)]
    assert 100 < np.mean(numbers) < 200


def test_joined_sentences_come_apart_again():
    assert split_sentences(join_sentences(SENTENCES)) == SENTENCES
    assert split_sentences(join_sentences([])) == []


def options(**keys):
    return VocabularySection(**({"source_size": 600, "target_size": 500} | keys))


@pytest.mark.parametrize("algorithm", ["unigram", "bpe", "char", "word"])
def test_training_twice_gives_the_same_bytes(algorithm):
    sentences = [f"{a} {b}".encode() for a in FRAGMENTS for b in FRAGMENTS[:9]]
    models = [train_vocabulary(sentences, options(algorithm=algorithm), "source") for _ in range(2)]
    assert models[0] == models[1]


def test_special_ids_are_where_all_stages_expect_them():
    pieces = Tokenizer(train_vocabulary(SENTENCES, options(), "source")).pieces()
    assert pieces[PAD_ID] == "<pad>"
    assert pieces[UNKNOWN_ID] == "<unk>"
    assert pieces[BEGIN_ID] == "<s>"
    assert pieces[END_ID] == "</s>"


def test_a_small_corpus_gives_a_smaller_vocabulary():
    assert 4 < Tokenizer(train_vocabulary([b"a b"], options(), "source")).size < 20


def test_encoding_adds_no_marks_and_nothing_gives_nothing():
    tokenizer = Tokenizer(train_vocabulary(SENTENCES, options(), "source"))
    marks, nothing, spaces = tokenizer.encode([b"<s> sentence </s>", b"", "\u200b ".encode()])
    assert not {PAD_ID, BEGIN_ID, END_ID} & set(marks)
    assert nothing == spaces == []


def test_a_size_below_the_characters_names_the_field_and_the_least():
    with pytest.raises(UserError, match=r"vocabulary.target_size: .* 10 pieces .* need (\d+)"):
        train_vocabulary(SENTENCES, options(target_size=10), "target")
    with pytest.raises(UserError, match=r"vocabulary.source_size: "):
        train_vocabulary(SENTENCES, options(source_size=5), "shared")


def test_sentences_without_text_are_told_to_the_user():
    with pytest.raises(UserError, match="vocabulary.source_size: .* SentencePiece gave up"):
        train_vocabulary(["\u200b".encode()], options(), "source")


@pytest.mark.parametrize("shared, names", [(True, {"shared"}), (False, {"source", "target"})])
def test_names(shared, names):
    assert set(vocabulary_names(options(shared=shared)).values()) == names


def test_counts_are_one_line_an_id_and_an_end_mark_a_record(tmp_path):
    tokenizer = Tokenizer(train_vocabulary(SENTENCES, options(), "source"))
    write_counts(tmp_path / "counts.tsv", tokenizer, np.array([0, 3, 0, 0, 7]), records=5)
    lines = (tmp_path / "counts.tsv").read_bytes().decode().split("\n")
    assert lines.pop() == ""
    assert [line.split("\t") for line in lines[:5]] == [
        ["<pad>", "0"],
        ["<unk>", "3"],
        ["<s>", "0"],
        ["</s>", "5"],
        [tokenizer.pieces()[4], "7"],
    ]
    assert len(lines) == tokenizer.size


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"algorithm": "bpe", "byte_fallback": True},
        {"normalization": "identity"},
        {"normalization": "nfkc_cf"},
    ],
)
def test_the_graph_gives_the_same_ids_to_a_thousand_hostile_strings(keys):
    keras_nlp = pytest.importorskip("keras_nlp")
    corpus = [string.encode() for string in FRAGMENTS if string.strip()] + SENTENCES
    model = train_vocabulary(corpus, options(source_size=1200, **keys), "source")
    strings = hostile_strings(1000)
    in_graph = keras_nlp.tokenizers.SentencePieceTokenizer(proto=model, dtype="int32")(strings)
    expected = [list(map(int, ids)) for ids in in_graph]
    assert Tokenizer(model).encode([string.encode() for string in strings]) == expected
    assert sum(map(len, expected)) > 10_000
