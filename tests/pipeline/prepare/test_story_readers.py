"""Readers of stories with questions, of conversations and of documents."""

import json

import pytest
from pydantic import ValidationError

from models.separators import QUESTION, SENTENCE
from pipeline.experiment import CorpusFile, Experiment, TrainSection
from pipeline.prepare.inspection import BLOCK_LINES, inspect_file
from pipeline.prepare.readers import make_reader
from pipeline.prepare.reading import Block, ByteRange
from pipeline.prepare.reasons import BROKEN_BABI, EMPTY, INVALID_UTF8, Dropped
from pipeline.prepare.sides import sides_of

STORY = """\
1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary? \tbathroom\t1
4 Daniel took the milk.
5 Where is John?\thallway\t2
1 Mice are afraid of wolves.
2 What is Mary carrying?\tapple,milk\t1
"""


def story(*sentences):
    return f" {SENTENCE} ".join(sentences)


def about(story, question):
    return f"{story} {QUESTION} {question}"


WANTED = [
    (
        3,
        about(story("Mary moved to the bathroom.", "John went to the hallway."), "Where is Mary?"),
        "bathroom",
    ),
    (
        5,
        about(
            story(
                "Mary moved to the bathroom.",
                "John went to the hallway.",
                "Daniel took the milk.",
            ),
            "Where is John?",
        ),
        "hallway",
    ),
    (7, about("Mice are afraid of wolves.", "What is Mary carrying?"), "apple,milk"),
]


def read(tmp_path, data, **keys):
    """Line, source and target of all pairs, or the reason in their place, through all blocks."""
    path = tmp_path / "corpus"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    reader = make_reader(CorpusFile(path=str(path), **keys))
    starts = getattr(reader, "starts", None)
    facts = inspect_file(str(path), tmp_path / "unpacked", starts)
    found = []
    ends = zip(facts.offsets, facts.offsets[1:], facts.first_lines, strict=False)
    for start, stop, first in ends:
        for line, raw in reader.rows(Block(0, first, (ByteRange(str(path), start, stop),))):
            try:
                source, target = reader.sides(raw)
                found.append((line, source.decode(), target.decode()))
            except Dropped as dropped:
                found.append((line, dropped.reason))
    return found


def test_babi_gives_each_question_the_story_so_far(tmp_path):
    assert read(tmp_path, STORY, format="babi") == WANTED


def test_babi_with_other_line_ends_and_a_byte_order_mark(tmp_path):
    data = b"\xef\xbb\xbf" + STORY.replace("\n", "\r\n").encode()
    assert read(tmp_path, data, format="babi") == WANTED


def test_babi_without_a_line_end_and_with_blank_lines(tmp_path):
    data = STORY.rstrip("\n").replace("1 Mice", "\n\n1 Mice")
    lines = [line + 2 * (line == 7) for line, *_ in WANTED]
    wanted = [(line, *rest) for line, (_, *rest) in zip(lines, WANTED, strict=True)]
    assert read(tmp_path, data, format="babi") == wanted


def test_babi_begins_anew_where_numbers_fall(tmp_path):
    data = "1 A cat.\n2 A dog.\n2 A bird.\n3 What?\tbird\t2\n"
    assert read(tmp_path, data, format="babi") == [(4, about("A bird.", "What?"), "bird")]


def test_babi_tells_lines_that_cannot_be_read(tmp_path):
    lines = [
        "1 A cat.",
        "no number here",
        "3 What?\tcat\t1",
        "4 \tcat\t1",  # no question
        "5 What?\t\t1",  # no answer
        "6",  # nothing
        "\u0661 A dog.",  # no digit of ASCII
        "8 Who?\tdog",
    ]
    assert read(tmp_path, "\n".join(lines), format="babi") == [
        (2, BROKEN_BABI),
        (3, about("A cat.", "What?"), "cat"),
        (4, BROKEN_BABI),
        (5, EMPTY),
        (6, EMPTY),
        (7, BROKEN_BABI),
        (8, about("A cat.", "Who?"), "dog"),
    ]


def test_babi_asks_without_a_story_and_keeps_separators_out(tmp_path):
    data = f"1 Where?\there\t\n2 A{SENTENCE}b{QUESTION}c.\n3 What{QUESTION}?\tit\t\n"
    assert read(tmp_path, data, format="babi") == [
        (1, about("", "Where?"), "here"),
        (3, about("A b c.", "What ?"), "it"),
    ]


def test_babi_stories_are_whole_in_their_blocks(tmp_path):
    one = "".join(f"{n} Sentence {n}.\n" for n in range(1, 1000)) + "1000 How many?\tmany\t1\n"
    found = read(tmp_path, one * (BLOCK_LINES // 1000 + 2), format="babi")
    assert [line for line, *_ in found] == [1000 * n for n in range(1, len(found) + 1)]
    assert {source.count(SENTENCE) for _, source, _ in found} == {998}


TALK = "\n\nHello.\nHi.\n Who are you? \nI am I.\nOh.\n\n\n\nAlone.\n\nYes?\nNo.\n"


def test_dialogue_gives_each_reply_the_turns_before_it(tmp_path):
    assert read(tmp_path, TALK, format="dialogue", context_turns=2) == [
        (4, "Hello.", "Hi."),
        (5, story("Hello.", "Hi."), "Who are you?"),
        (6, story("Hi.", "Who are you?"), "I am I."),
        (7, story("Who are you?", "I am I."), "Oh."),
        (14, "Yes?", "No."),
    ]


def test_dialogue_is_the_same_with_other_line_ends(tmp_path):
    wanted = read(tmp_path, TALK, format="dialogue")
    assert len(wanted) == 5
    data = b"\xef\xbb\xbf" + TALK.replace("\n", "\r\n").encode()
    assert read(tmp_path, data, format="dialogue") == wanted


def test_dialogue_keeps_separators_out(tmp_path):
    data = f"A{SENTENCE}b.\nC{QUESTION}d.\n"
    assert read(tmp_path, data, format="dialogue") == [(2, "A b.", "C d.")]


def documents(tmp_path, *rows, **keys):
    data = "".join(f"{json.dumps(row)}\n" for row in rows)
    return read(tmp_path, data, format="documents", **keys)


def test_documents_part_lines(tmp_path):
    keys = {"source_key": "article", "target_key": "summary"}
    row = {"article": "One.\r\n\n Two\tor three. \n", "summary": "Some\nnumbers."}
    wanted = [(1, story("One.", "Two or three."), "Some numbers.")]
    assert documents(tmp_path, row, **keys) == wanted


def test_documents_join_questions(tmp_path):
    keys = {"source_key": "story", "question_key": "question", "target_key": "answer"}
    rows = [
        {"story": "A cat.\nA dog.", "question": "Who\nbarks?", "answer": " dog "},
        {"story": "", "question": "Who?", "answer": "nobody"},
        {"story": "A cat.", "question": " ", "answer": "cat"},
        {"story": "A cat.", "answer": "cat"},
    ]
    assert documents(tmp_path, *rows, **keys) == [
        (1, about(story("A cat.", "A dog."), "Who barks?"), "dog"),
        (2, about("", "Who?"), "nobody"),
        (3, EMPTY),
        (4, "missing_key"),
    ]


def test_documents_of_bytes_that_are_no_text(tmp_path):
    found = read(tmp_path, b'{"source": "a", "target": "b"}\n{"source": "\xff"}\n' * 2,
                 format="documents")  # fmt: skip
    assert [row[-1] for row in found] == ["b", INVALID_UTF8] * 2


def separators_of(make_experiment, *inputs, **sections):
    return sides_of(make_experiment(list(inputs), **sections))["source"].separators


def test_separators_are_pieces_where_readers_put_them(make_experiment):
    given = {"path": "x"}
    tsv, talk = {"format": "tsv", **given}, {"format": "dialogue", **given}
    stories = {"format": "documents", "question_key": "question", **given}
    assert separators_of(make_experiment, tsv) == ()
    assert separators_of(make_experiment, tsv, talk) == (SENTENCE,)
    assert separators_of(make_experiment, {"format": "documents", **given}) == (SENTENCE,)
    assert separators_of(make_experiment, stories) == (SENTENCE, QUESTION)
    assert separators_of(make_experiment, tsv, data={"test": [{"format": "babi", **given}]}) == (
        SENTENCE,
        QUESTION,
    )
    shared = sides_of(make_experiment([talk], vocabulary={"shared": True}))
    assert shared["source"] == shared["target"]
    assert shared["source"].separators == (SENTENCE,)


@pytest.mark.parametrize("kind", ["unigram", "bpe", "word", "character"])
def test_vocabularies_keep_separators_whole(tmp_path, make_experiment, run, kind):
    path = tmp_path / "stories"
    path.write_text(STORY * 20)
    inputs = [{"format": "babi", "path": str(path)}]
    experiment = make_experiment(
        inputs,
        data={"cleaning": {"drop_duplicates": False, "max_length_ratio": 1000}},
        vocabulary={"source_size": 60, "target_size": 40, "algorithm": kind},
    )
    workspace, manifest, _ = run(experiment)
    assert manifest["splits"]["train"]["pairs_out"] == 60
    from pipeline.vocabularies import load_vocabularies

    source = load_vocabularies(experiment, workspace).source
    ids = [source.piece_id(mark) for mark in (SENTENCE, QUESTION)]
    assert ids == [4, 5]
    (text,) = source.encode([WANTED[1][1]]).to_list()
    assert [text.count(id) for id in ids] == [2, 1]


def test_broken_lines_are_counted_where_they_stand(tmp_path, make_experiment, run):
    path = tmp_path / "stories"
    path.write_text(STORY + "no number\n" + STORY + "6 What?\t\t\n")
    inputs = [{"format": "babi", "path": str(path)}]
    _, manifest, printed = run(
        make_experiment(
            inputs,
            data={"cleaning": {"drop_duplicates": False}},
            vocabulary={"algorithm": "word"},
            model={"task": "answering"},
        )
    )
    dropped = manifest["inputs"][0]["splits"]["train"]["dropped"]
    assert dropped["broken_babi"] == {"pairs": 1, "first_lines": [8]}
    assert dropped["empty"] == {"pairs": 1, "first_lines": [16]}
    assert "a bAbI line without its number" in " ".join(printed.split())


def test_a_story_too_long_loses_its_beginning(tmp_path, make_experiment, run):
    path = tmp_path / "stories"
    path.write_text(STORY)
    inputs = [{"format": "babi", "path": str(path)}]
    experiment = make_experiment(
        inputs,
        data={"cleaning": {"max_source_length": 10, "too_long": "truncate"}, "shards": 1},
        vocabulary={"algorithm": "word"},
        model={"task": "answering"},
    )
    workspace, manifest, _ = run(experiment)
    assert manifest["splits"]["train"]["truncated"] == 2
    from pipeline.batches import read_pairs
    from pipeline.vocabularies import load_vocabularies

    pairs = read_pairs(workspace.shards("train"))
    source = load_vocabularies(experiment, workspace).source
    ends = {tuple(ids[-3:]) for ids in source.encode([w[1] for w in WANTED]).to_list()}
    assert {tuple(ids[-3:]) for ids in pairs.source_ids} == ends
    assert max(map(len, pairs.source_ids)) == 10


def test_sentences_are_not_for_xla(make_experiment):
    inputs = [{"format": "babi", "path": "x"}]
    chosen = {"task": "answering", "answering": {"level": "word"}}
    compiled = TrainSection(jit_compile=True)
    parts = make_experiment(inputs, model=chosen).model_dump() | {"train": compiled}
    Experiment.model_validate(parts)
    with pytest.raises(ValidationError, match="level 'sentence'"):
        Experiment.model_validate(parts | {"model": {"task": "answering"}})


def test_byte_vocabularies_cannot_part_stories(make_experiment):
    with pytest.raises(ValidationError, match="'byte' has no piece"):
        make_experiment(
            [{"format": "babi", "path": "x"}],
            vocabulary={"algorithm": "byte"},
            model={"task": "answering"},
        )
