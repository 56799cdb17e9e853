"""The whole road of frame tagging, on clips of plain colours, tagged by them and by changes."""

import io
import itertools
import json

import pytest
import rich.console

from models.errors import UserError
from pipeline.batch_plan import BatchOptions
from pipeline.batches import read_pairs
from pipeline.clips import clips_of, read_clips
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.stages import run_stages
from pipeline.tasks.members import make_task
from pipeline.train.checkpoints import restore_best
from serving.client import Client
from serving.server.main import Server
from serving.server.options import ServerOptions
from tests.colour_clips import COLOURS, content_of, write_clip

CLIPS = ["".join(each) for count in (1, 2, 3) for each in itertools.product("rb", repeat=count)]
TIMES = 10  # Many epochs in one: what is read before each takes longer than to learn from it.
LONGER = "rrrrr"  # than what is learned from and read

EXPERIMENT = """\
name: frames
workspace: {folder}/run
data:
  train: [&clips {{format: jsonl, path: {folder}/clips.jsonl, images: {folder}/clips,
    source_key: clip, target_key: tags}}{again}]
  valid: [*clips]
  test: [*clips]
  pictures: {{backbone: tiny, weights: null, fine_tune: true}}
  cleaning: {{max_source_length: 4, drop_duplicates: false}}
  shards: 2
model:
  task: frame_tagging
  cell: gru
  embedding_size: 8
  dropout: 0.0
  initializer_range: 0.3
  encoder: {{units: 16}}
train:
  max_steps: 60
  batch_tokens: 48
  learning_rate: 0.02
  log_every: 30
  validate_every: 60
  samples: 2
export: {{model_name: frames, warmup_requests: 1, max_source_length: 4}}
cluster: {{running_mode: in_memory}}
"""


def tags_of(clip):
    """The colour of each frame, and whether it is another than that of the frame before."""
    before = [clip[0], *clip]
    return [f"{COLOURS[one]}{'+' * (one != last)}" for one, last in zip(clip, before, strict=False)]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Experiment, workspace and what was printed, of all stages."""
    folder = tmp_path_factory.mktemp("frames")
    for clip in [*CLIPS, LONGER]:
        write_clip(folder / "clips" / clip, clip)
    rows = [{"clip": clip, "tags": " ".join(tags_of(clip))} for clip in [*CLIPS, LONGER]]
    rows += [{"clip": "rb", "tags": "red blue+ red+"}, {"clip": "nowhere", "tags": "red"}]
    (folder / "clips.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    path = folder / "frames.yaml"
    path.write_text(EXPERIMENT.format(folder=folder, again=", *clips" * (TIMES - 1)))
    experiment = load_experiment(path)
    workspace = workspace_of(experiment)
    printed = io.StringIO()
    run_stages(experiment, workspace, rich.console.Console(file=printed, width=120))
    return experiment, workspace, printed.getvalue()


def test_clips_with_more_or_fewer_tags_than_frames_are_dropped(ran):
    _, workspace, printed = ran
    assert "not_aligned" in printed and "no_clip" in printed
    found = read_pairs(workspace.shards("train"))
    assert sorted(found.sources) == sorted(CLIPS * TIMES)
    for clip, ids, tags in zip(found.sources, found.source_ids, found.target_ids, strict=True):
        assert ids == list(range(len(clip))) and len(tags) == len(clip)


def test_batches_have_a_tag_a_frame(ran):
    experiment, workspace, _ = ran
    task = make_task(experiment, workspace)
    rows = 0
    for inputs, labels in task.training_batches(
        workspace.shards("train"), BatchOptions(16, 100), epoch=1
    ):
        assert inputs["pixels"].shape[:2] == labels.shape
        tags = task.vocabularies.target.pieces(labels).numpy()
        for clip, count, row in zip(inputs["pixels"].numpy(), inputs["frames"], tags, strict=True):
            letters = "".join("r" if frame[0, 0, 0] else "b" for frame in clip[:count])
            assert [tag.decode() for tag in row if tag] == tags_of(letters)
        rows += len(tags)
    assert rows == len(CLIPS) * TIMES


def test_colours_and_changes_are_learned(ran):
    _, workspace, printed = ran
    scores = json.loads((workspace.scores / "test.json").read_text())
    assert scores["clips"] == len(CLIPS) + 1  # The longest was not learned from.
    assert scores["clips_right"] >= 0.9
    assert scores["tags"]["count"] == sum(map(len, [*CLIPS, LONGER]))
    assert scores["tags"]["accuracy"] >= 0.95
    assert "to the last frame" in printed


def test_a_server_tags_like_the_model_and_a_broken_frame_fails_its_clip_alone(ran):
    experiment, workspace, _ = ran
    task = make_task(experiment, workspace)
    model = task.build_model()
    restore_best(workspace, model)
    pairs = read_pairs(workspace.shards("train")).first(len(CLIPS))
    wanted = model.tag(read_clips(clips_of(pairs)))
    texts = pairs.sources
    asked = [[content_of(letter) for letter in text] for text in texts]
    broken = [[content_of("r"), b"none"], []]
    with Server(
        ServerOptions("frames", workspace.export / "frames", port=0, rest_api_port=0)
    ) as server:
        for protocol in ("grpc", "rest"):
            with Client(getattr(server.addresses, protocol), protocol, "frames") as client:
                rows = client.predict({"frames_bytes": [*asked, *broken]})
                (long,) = client.predict({"frames_bytes": [[content_of("b")] * 6]})
            assert [row["error_code"] for row in rows] == [0] * len(asked) + [2, 1]
            assert [row["tags"] for row in rows[-2:]] == [["", "", ""]] * 2
            ids = task.vocabularies.target.pieces(wanted.ids).numpy()
            for row, tags, scores in zip(rows, ids, wanted.probabilities.numpy(), strict=False):
                assert row["tags"] == [tag.decode() for tag in tags]
                assert row["scores"] == pytest.approx(scores.tolist(), abs=1e-4)
            assert len(long["tags"]) == 4 and all(long["tags"])


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("data.pictures.fine_tune=false", "tiny"),
        ("data.train.0.format=documents", "format 'documents'"),
        ("train.jit_compile=true", "train.jit_compile pads batches"),
        ("vocabulary.algorithm=bpe", "'frame_tagging'"),
        ("model.decoder.units=9", "'frame_tagging'"),
        ("train.best_metric=chrf", "accuracy"),
    ],
)
def test_what_cannot_be_is_told(ran, setting, told):
    with pytest.raises(UserError, match=told):
        load_experiment(ran[1].root.parent / "frames.yaml", [setting])
