"""The clips of a drawn mouth: the same every time, and of words that no other split has."""

import itertools
import json

import numpy as np
from build_mouths import CLIPS, LETTERS, main, words_of
from PIL import Image


def test_no_word_is_in_two_splits():
    words = [words_of(split) for split in CLIPS]
    assert sum(map(len, words)) == len(set().union(*words)) == 900
    assert set("".join(words[2])) == set(LETTERS)


def test_no_two_letters_look_alike():
    assert len(set(LETTERS.values())) == len(LETTERS)


def test_clips_are_the_same_every_time(tmp_path):
    for name in ("one", "other"):
        main(tmp_path / name, share=0.01)
    for split, count in CLIPS.items():
        (one, other) = (
            (tmp_path / name / f"{split}.jsonl").read_text() for name in ("one", "other")
        )
        assert one == other
        records = [json.loads(line) for line in one.splitlines()]
        assert len(records) == count // 100
        for record in records:
            said, words = record["text"], words_of(split)
            assert said in words or (split == "train" and said in {word[:2] for word in words})
            clips = [tmp_path / name / "clips" / record["clip"] for name in ("one", "other")]
            frames = [
                [np.asarray(Image.open(each)) for each in sorted(clip.iterdir())] for clip in clips
            ]
            assert len(frames[0]) >= len(record["text"]) + 2
            tags = record["tags"].split()
            assert len(tags) == len(frames[0])
            assert [tag for tag, _ in itertools.groupby(tags)] == ["-", *said, "-"]
            assert np.shape(frames[0])[1:] == (32, 32, 3)
            np.testing.assert_array_equal(*frames)
