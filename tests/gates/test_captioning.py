"""Gates of captioning on real photos: it can learn them by heart, and it looks at them."""

import json
import os
import pathlib

import pytest
from command import ROOT, seqloom

from models.vision.imagenet import lite0_file

EXPERIMENT = """\
name: photos
workspace: {folder}/run
data:
  target_language: en
  train: [{{format: coco, path: {folder}/often.json, images: {images}}}]
  cleaning: {{drop_duplicates: false}}
  valid: [{{format: coco, path: {folder}/few.json, images: {images}}}]
  test: [{{format: coco, path: {folder}/captions.json, images: {images}}}]
  shards: 1
vocabulary: {{algorithm: word, target_size: 4000}}
model:
  task: captioning
  embedding_size: 128
  dropout: 0.0
  decoder: {{units: 256}}
  attention: {{score: additive, units: 128}}
train:
  max_steps: 110
  batch_tokens: 512
  learning_rate: 0.003
  validate_every: 110
  checkpoint_every: 110
search: {{beam_size: 3, max_length_extra: 30}}
cluster: {{workers: 1, running_mode: in_memory}}
"""


def photos(name):
    """A folder of captioned photos, or a skipped test."""
    folder = pathlib.Path(os.environ.get("SEQLOOM_DATA", ROOT / "../shared/data")) / name
    if not (folder / "captions.json").is_file():
        pytest.skip(f"no {folder}; SEQLOOM_DATA names the folder that holds {name}")
    if lite0_file() is None:
        pytest.skip("the extra imagenet is not installed")
    return folder


@pytest.mark.gate
def test_photos_are_learned_by_heart(tmp_path):
    folder = photos("coco-ccby-demo")
    rows = json.loads((folder / "captions.json").read_text())
    assert len(rows) == 94
    one_each = [{"file": row["file"], "captions": row["captions"][:1]} for row in rows]
    (tmp_path / "captions.json").write_text(json.dumps(one_each))
    # Many epochs in one: what is read before each of them takes longer than to learn from it.
    (tmp_path / "often.json").write_text(json.dumps(one_each * 10))
    (tmp_path / "few.json").write_text(json.dumps(one_each[:8]))
    experiment = tmp_path / "photos.yaml"
    experiment.write_text(EXPERIMENT.format(folder=tmp_path, images=folder / "images"))
    for stage in ("prepare", "train", "evaluate"):
        seqloom(stage, str(experiment))
    scores = json.loads((tmp_path / "run/scores/test.json").read_text())
    assert scores["pictures"] == 94
    assert scores["bleu"][-1]["value"] >= 90.0
