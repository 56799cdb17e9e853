import random

import numpy as np
import pytest

from models.errors import UserError
from models.special_ids import BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID
from pipeline.experiment import VocabularySection
from pipeline.prepare.hashing import SeededHash
from pipeline.prepare.sides import Side
from pipeline.prepare.tokenizers import make_tokenizer
from pipeline.prepare.vocabularies import (
    SentenceSample,
    join_sentences,
    split_sentences,
    train_vocabulary,
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


def train(sentences, name="source", kind="unigram", size=600, separators=(), **keys):
    return train_vocabulary(
        sentences, VocabularySection(**keys), Side(name, kind, size, separators)
    )


def trained(sentences, kind="unigram", **keys):
    return make_tokenizer(kind, train(sentences, kind=kind, **keys))


KINDS = ["unigram", "bpe", "word", "character", "byte", "label"]


@pytest.mark.parametrize("kind", KINDS)
def test_training_twice_gives_the_same_bytes(kind):
    sentences = [f"{a} {b}".encode() for a in FRAGMENTS for b in FRAGMENTS[:9]]
    assert train(sentences, kind=kind) == train(sentences, kind=kind)


@pytest.mark.parametrize("kind", ["word", "character", "label"])
def test_tables_do_not_depend_on_the_order_of_the_sample(kind):
    assert train(SENTENCES, kind=kind) == train(SENTENCES[::-1], kind=kind)


def test_tables_keep_the_commonest_pieces_behind_the_separators():
    sentences = [b"c b a", b"c b", b"c \xe2\x80\xa8 d"]
    pieces = trained(sentences, "word", size=8, separators=("\u2028",)).pieces()
    assert pieces == ["<pad>", "<unk>", "<s>", "</s>", "\u2028", "c", "b", "a"]


def test_a_separator_is_a_piece_of_its_own_in_sentencepiece_too():
    sentences = [b"%s \xe2\x80\xa8 %s" % (one, one) for one in SENTENCES]
    tokenizer = trained(sentences, separators=("\u2028",))
    separator = tokenizer.pieces().index("\u2028")
    [ids] = tokenizer.encode(["sentence 1 \u2028 sentence 2".encode()])
    assert ids.count(separator) == 1


@pytest.mark.parametrize(
    ("kind", "text", "pieces"),
    [
        ("word", "a  b\u00a0c\td ", ["a", "b\u00a0c", "d"]),
        ("character", "a 😀", ["a", " ", "😀"]),
        ("byte", "é", ["<0xC3>", "<0xA9>"]),
        ("label", " New York ", ["New York"]),
    ],
)
def test_tables_part_texts_as_they_are(kind, text, pieces):
    tokenizer = trained([text.encode()], kind)
    [ids] = tokenizer.encode([text.encode()])
    assert [tokenizer.pieces()[id] for id in ids] == pieces


def test_a_word_spelled_like_a_mark_is_unknown():
    assert trained([b"<s> a"], "word", size=5).encode([b"<pad> </s> x"]) == [[UNKNOWN_ID] * 3]


def test_special_ids_are_where_all_stages_expect_them():
    pieces = trained(SENTENCES).pieces()
    assert pieces[PAD_ID] == "<pad>"
    assert pieces[UNKNOWN_ID] == "<unk>"
    assert pieces[BEGIN_ID] == "<s>"
    assert pieces[END_ID] == "</s>"


def test_a_small_corpus_gives_a_smaller_vocabulary():
    assert 4 < trained([b"a b"]).size < 20


def test_encoding_adds_no_marks_and_nothing_gives_nothing():
    tokenizer = trained(SENTENCES)
    marks, nothing, spaces = tokenizer.encode([b"<s> sentence </s>", b"", "\u200b ".encode()])
    assert not {PAD_ID, BEGIN_ID, END_ID} & set(marks)
    assert nothing == spaces == []


def test_a_size_below_the_characters_names_the_field_and_the_least():
    with pytest.raises(UserError, match=r"vocabulary.target_size: .* 10 pieces .* need (\d+)"):
        train(SENTENCES, "target", size=10)
    with pytest.raises(UserError, match=r"vocabulary.source_size: "):
        train(SENTENCES, "shared", size=5)


def test_sentences_without_text_are_told_to_the_user():
    with pytest.raises(UserError, match="vocabulary.source_size: .* SentencePiece gave up"):
        train(["\u200b".encode()])


def test_counts_are_one_line_an_id_and_an_end_mark_a_record(tmp_path):
    tokenizer = trained(SENTENCES)
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


def test_counts_spell_out_pieces_that_cannot_stand_in_a_line(tmp_path):
    tokenizer = trained(["a\tb\u2028".encode()], "character")
    write_counts(tmp_path / "counts.tsv", tokenizer, np.zeros(4), records=1)
    lines = (tmp_path / "counts.tsv").read_text("utf-8").split("\n")
    assert {line.split("\t")[0] for line in lines[4:-1]} == {"a", "b", "\\t", "\\u2028"}


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("unigram", {}),
        ("bpe", {"byte_fallback": True}),
        ("unigram", {"normalization": "identity"}),
        ("unigram", {"normalization": "nfkc_cf"}),
        ("unigram", {"separators": ("\u2028",)}),
        ("word", {"separators": ("\u2028",)}),
        ("character", {}),
        ("byte", {}),
        ("label", {"size": None}),
    ],
)
def test_the_graph_gives_the_same_ids_to_a_thousand_hostile_strings(kind, keys):
    tokenizers = pytest.importorskip("models.tokenizers")
    strings = hostile_strings(1000)
    corpus = [string.encode() for string in FRAGMENTS if string.strip()] + SENTENCES
    corpus += [string.encode() for string in strings[:10] if kind == "label"]
    model = train(corpus, kind=kind, **{"size": 1200, **keys})
    in_graph = tokenizers.VOCABULARIES[kind](model).encode(strings)
    expected = make_tokenizer(kind, model).encode([string.encode() for string in strings])
    assert in_graph.to_list() == expected
    assert sum(map(len, expected)) > {"label": 999, "word": 3_000}.get(kind, 10_000)
