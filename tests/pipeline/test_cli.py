"""The command, as a user runs it: each verb, its messages and its exit statuses."""

import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest
import tensorflow as tf
from command import ROOT, command, environment, seqloom

VERBS = [
    "prepare",
    "train",
    "evaluate",
    "export",
    "run",
    "serve",
    "translate",
    "generate",
    "monitor",
    "show",
]


def complaint(*arguments, **options):
    """The one message of a mistake, on standard error, without a traceback."""
    outcome = seqloom(*arguments, status=2, **options)
    message = outcome.stderr.decode()
    assert "Traceback" not in message
    assert message.startswith("seqloom: ")
    return message


def tensors(checkpoint):
    """All values of a checkpoint: weights, optimizer, random states, progress."""
    reader = tf.train.load_checkpoint(str(checkpoint))
    names = set(reader.get_variable_to_shape_map()) - {"_CHECKPOINTABLE_OBJECT_GRAPH"}
    return {name: reader.get_tensor(name) for name in names}


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_an_example(verb):
    text = seqloom(verb, "--help", COLUMNS="200").stdout.decode()
    assert f"Example: seqloom {verb}" in text


def test_show_prints_the_whole_experiment(tiny):
    text = seqloom("show", str(tiny), "--set", "model.cell=gru").stdout.decode()
    assert "cell: gru" in text and "beam_size: 3" in text


def test_mistakes_are_told_in_one_message(tiny, tmp_path):
    assert "no such experiment file" in complaint("prepare", "missing.yaml")
    message = complaint("train", str(tiny), "--set", "train.batch_token=3")
    assert "did you mean 'batch_tokens'?" in message
    assert "prepare" in complaint("train", str(tiny), "--set", f"workspace={tmp_path}/none")
    assert "seqloom train" in complaint("evaluate", str(tiny))
    assert "seqloom train" in complaint("export", str(tiny))
    assert "seqloom export" in complaint("serve", str(tiny))
    assert "no such folder" in complaint("translate", "--model", f"{tmp_path}/none")
    assert "holds neither" in complaint("translate", "--model", str(tmp_path))
    assert "keep one" in complaint("translate", "--model", "x", "--server", "y:1")
    assert "seqloom serve" in complaint("translate", "--server", "127.0.0.1:1", stdin=b"a\n")


def test_killed_training_resumes_and_ends_as_an_undisturbed_run(tiny, trained):
    """kill -9 after the first checkpoint; the second start ends with the same weights."""
    slow = command("train", str(tiny))
    process = subprocess.Popen(slow, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL)
    checkpoint = tiny.parent / "run/train/checkpoint"  # Written after the files it names.
    deadline = time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.returncode == -signal.SIGKILL
    text = seqloom("train", str(tiny)).stdout.decode()
    assert "resuming at step" in text
    assert "Training ended at step 24" in text
    mine, undisturbed = (tensors(path.parent / "run/train/ckpt-24") for path in (tiny, trained))
    assert mine.keys() == undisturbed.keys()
    for name, value in mine.items():
        np.testing.assert_array_equal(value, undisturbed[name], name)
    assert "already ended" in seqloom("train", str(tiny)).stdout.decode()


def test_signalled_training_saves_and_says_how_to_go_on(tiny):
    arguments = command("train", str(tiny), "--set", "train.max_steps=100000")
    process = subprocess.Popen(
        arguments, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    checkpoint = tiny.parent / "run/train/ckpt-12.index"
    deadline = time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.terminate()
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 75  # Start it again.
    assert b"run the same command to go on" in output
    assert b"Traceback" not in errors


def test_terminated_preparing_clears_up(tiny):
    (tiny.parent / "many.tsv").write_text("sun moon\tstar sky\n" * 1_000_000)
    changes = [f"workspace={tiny.parent}/fresh", f"data.train.0.path={tiny.parent}/many.tsv"]
    arguments = command("prepare", str(tiny), *(f"--set={change}" for change in changes))
    process = subprocess.Popen(arguments, cwd=ROOT, env=environment(), stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not (tiny.parent / "fresh/.data.partial").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.terminate()
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert errors == b""
    assert list((tiny.parent / "fresh").iterdir()) == []


def test_a_fault_of_the_disk_says_where_to_look(tiny):
    with open("/dev/full", "wb") as full:
        outcome = subprocess.run(
            command("show", str(tiny)),
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
        )
    assert outcome.returncode == 1
    assert b"the space left on the disk" in outcome.stderr


def test_run_leaves_out_what_is_up_to_date(trained):
    first = seqloom("run", str(trained)).stdout.decode()
    assert "prepare: up to date" in first and "already ended" in first
    assert "Exported step" in first
    second = seqloom("run", str(trained)).stdout.decode()
    for stage in ("prepare", "evaluate", "export"):
        assert f"{stage}: up to date" in second
    wider = seqloom("run", str(trained), "--set", "search.beam_size=4").stdout.decode()
    assert "prepare: up to date" in wider
    assert "evaluate: up to date" not in wider and "Exported step" in wider
    versions = sorted(path.name for path in (trained.parent / "run/export/translation").iterdir())
    assert versions == ["1", "2"]
    scores = json.loads((trained.parent / "run/scores/test.json").read_text())
    assert scores["search"]["beam_size"] == 4
    assert {"bleu", "chrf", "ter", "perplexity", "buckets"} <= set(scores)
    assert scores["bleu"]["signature"].startswith("nrefs:1|")
    lines = (trained.parent / "run/scores/test.hypothesis.txt").read_text().split("\n")
    assert len(lines) == 24 + 1


def test_standard_error_is_free_of_tensorflow_lines(trained):
    outcome = seqloom("evaluate", str(trained))
    assert outcome.stderr == b""


def test_closed_output_ends_quietly(trained):
    seqloom("export", str(trained))
    arguments = command("translate", "--model", str(trained.parent / "run/export"))
    process = subprocess.Popen(
        arguments,
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    os.write(process.stdin.fileno(), b"sun\n" * 40)
    process.stdin.close()
    errors = process.stderr.read()
    process.wait(timeout=120)
    assert b"Traceback" not in errors
