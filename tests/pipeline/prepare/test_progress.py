import io

import rich.console

from pipeline.prepare.milestones import READING, SAMPLING, TRAINING, WRITING, Milestones
from pipeline.prepare.progress import Progress


def shown(terminal):
    printed = io.StringIO()
    progress = Progress(rich.console.Console(file=printed, force_terminal=terminal, width=100))
    none = {READING: 0, SAMPLING: 0, TRAINING: 0, WRITING: 0}
    with progress.shown():
        progress.expect({READING: 1})
        progress.update(none | {READING: 1})
        progress.expect({SAMPLING: 2, TRAINING: 1})
        progress.update(none | {READING: 1, SAMPLING: 1})
        assert set(progress.seconds) == {READING}
        progress.update(none | {READING: 1, SAMPLING: 2, TRAINING: 1})
    assert set(progress.seconds) == {READING, SAMPLING, TRAINING}
    return printed.getvalue()


def test_without_a_terminal_each_stage_is_one_plain_line():
    lines = shown(terminal=False).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "reading files",
        "reading sample",
        "training vocabularies",
    ]
    assert all("done in" in line for line in lines)


def test_on_a_terminal_there_are_bars():
    output = shown(terminal=True)
    assert "━" in output and "2/2" in output


def test_a_mark_made_twice_counts_once(tmp_path):
    milestones = Milestones(tmp_path)
    for piece in ("a", "b", "a"):
        milestones.reach(SAMPLING, piece)
    assert milestones.count() == {READING: 0, SAMPLING: 2, TRAINING: 0, WRITING: 0}
