"""Gates of lip reading: shapes that it has seen say words, and three real clips by heart."""

import json
import os
import pathlib

import numpy as np
import pytest
import rich.console
from build_mouths import render, shapes
from command import ROOT

from pipeline.evaluate import evaluate
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.prepare.run import prepare
from pipeline.stages import train_stage

EXPERIMENT = """\
name: lips
workspace: {folder}/run
data:
  train: [{{format: jsonl, path: {folder}/train.jsonl, images: {clips},
    source_key: clip, target_key: text}}]
  valid: [{{format: jsonl, path: {folder}/test.jsonl, images: {clips},
    source_key: clip, target_key: text}}]
  test: [{{format: jsonl, path: {folder}/test.jsonl, images: {clips},
    source_key: clip, target_key: text}}]
  pictures: {{backbone: tiny, weights: null, fine_tune: true}}
  cleaning: {{drop_duplicates: false}}
  shards: 1
vocabulary: {{algorithm: character}}
model:
  task: lip_reading
  cell: gru
  embedding_size: 32
  dropout: 0.0
  encoder: {{units: 48}}
  decoder: {{units: 96}}
train:
  max_steps: {steps}
  batch_tokens: {frames}
  learning_rate: {rate}
  validate_every: {steps}
  checkpoint_every: {steps}
  log_every: 50
search: {{beam_size: 1, max_length_extra: 40}}
cluster: {{running_mode: in_memory}}
"""

SENTENCES = {
    "bbaf2n.mpg": "bin blue at f two now",
    "id2_vcd_swwp2s.mpg": "set white with p two soon",
    "lwbsza.mpg": "lay white by s zero again",
}


def write_list(path, texts, times=1):
    """The texts of clips, by their names."""
    rows = [json.dumps({"clip": name, "text": text}) for name, text in texts.items()]
    path.write_text("".join(f"{row}\n" for row in rows * times))


def scores(folder, clips, steps, frames, rate):
    """Of the test split, after preparing and training."""
    path = folder / "lips.yaml"
    path.write_text(
        EXPERIMENT.format(folder=folder, clips=clips, steps=steps, frames=frames, rate=rate)
    )
    experiment = load_experiment(path)
    workspace = workspace_of(experiment)
    for stage in (prepare, train_stage, evaluate):
        stage(experiment, workspace, rich.console.Console(width=100))
    return json.loads((workspace.scores / "test.json").read_text())


@pytest.mark.gate
def test_what_a_mouth_says_is_read_from_clips_never_seen(tmp_path):
    generator = np.random.default_rng(5)
    for split, count in {"train": 240, "test": 40}.items():
        texts = {}
        for index in range(count):
            name, text = f"{split}{index}", "".join(generator.choice(list(each)) for each in PARTS)
            folder = tmp_path / "clips" / name
            folder.mkdir(parents=True)
            for number, picture in enumerate(render(shapes(text, generator), generator)):
                picture.save(folder / f"{number:02d}.png")
            texts[name] = text
        write_list(tmp_path / f"{split}.jsonl", texts)
    found = scores(tmp_path, tmp_path / "clips", steps=220, frames=256, rate=0.003)
    assert found["clips"] == 40
    assert found["right"] >= 0.75
    assert found["character_error_rate"] <= 0.15


PARTS = ("ms", "aiu")  # a consonant, a vowel


@pytest.mark.gate
def test_three_real_clips_are_learned_by_heart(tmp_path):
    pytest.importorskip("av", reason="the extra video is not installed")
    name = "grid-lipreading-sample"
    clips = pathlib.Path(os.environ.get("SEQLOOM_DATA", ROOT / "../shared/data")) / name
    if not clips.is_dir():
        pytest.skip(f"no {clips}; SEQLOOM_DATA names the folder that holds {name}")
    write_list(tmp_path / "test.jsonl", SENTENCES)
    # Many epochs in one: what is read before each of them takes longer than to learn from it.
    write_list(tmp_path / "train.jsonl", SENTENCES, times=16)
    found = scores(tmp_path, clips, steps=160, frames=256, rate=0.003)
    assert (found["clips"], found["right"]) == (3, 1.0)
    assert found["character_error_rate"] == 0.0
