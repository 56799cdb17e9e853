"""The whole road of lip reading, on clips of plain colours that spell texts."""

import asyncio
import base64
import functools
import io
import itertools
import json
import shutil
import sys

import grpc
import httpx
import numpy as np
import pytest
import rich.console
import tensorflow as tf
from PIL import Image
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from models.errors import UserError
from pipeline.batch_plan import BatchOptions
from pipeline.batches import read_pairs
from pipeline.clips import clips_of, read_clips
from pipeline.experiment_file import load_experiment, workspace_of
from pipeline.lip_scoring import edits, score_lips
from pipeline.lips import frames_of, read_lips
from pipeline.prepare.clips import inspect_clip, read_clip
from pipeline.prepare.manifest import load_manifest
from pipeline.stages import run_stages
from pipeline.tasks.members import make_task
from pipeline.train.checkpoints import restore_best
from serving.client import AsyncClient, Client
from serving.server.main import Server
from serving.server.options import ServerOptions
from serving.warmup import read_warmup
from tests.colour_clips import COLOURS, content_of, write_clip

TIMES = 20  # Many epochs in one: what is read before each takes longer than to learn from it.
TEXTS = ["".join(each) for count in (1, 2) for each in itertools.product("rb", repeat=count)]

EXPERIMENT = """\
name: colours
workspace: {folder}/run
data:
  train: [&clips {{format: jsonl, path: {folder}/clips.jsonl, images: {folder}/clips,
    source_key: clip, target_key: text}}{again}]
  valid: [*clips]
  test: [*clips]
  pictures: {{backbone: tiny, weights: null, fine_tune: true, batch_size: 2}}
  cleaning: {{max_source_length: 4, drop_duplicates: false}}
  shards: 2
vocabulary: {{algorithm: character}}
model:
  task: lip_reading
  cell: gru
  embedding_size: 8
  dropout: 0.0
  initializer_range: 0.3
  encoder: {{units: 16}}
  decoder: {{units: 16}}
train:
  max_steps: 80
  batch_tokens: 64
  learning_rate: 0.01
  log_every: 40
  validate_every: 80
  samples: 2
search: {{beam_size: 2, max_length_extra: 5}}
export: {{model_name: lips, warmup_requests: 1, max_source_length: 4}}
cluster: {{running_mode: in_memory}}
"""


def write_clips(folder):
    """A clip of each text, one too long to learn from, and ones that cannot be read."""
    clips = folder / "clips"
    for text in [*TEXTS, "rrrrr", "broken", ""]:
        write_clip(clips / (text or "nothing"), text if set(text) <= set("rb") else "rbr")
    (clips / "broken" / "1.png").write_bytes(content_of("b")[:40])
    (clips / "video.mpg").write_bytes(b"no video")
    (clips / "r" / ".hidden").write_bytes(b"not a frame")
    names = [*TEXTS, "rrrrr", "broken", "nothing", "nowhere"]
    lines = [json.dumps({"clip": name, "text": name}) for name in names]
    (folder / "clips.jsonl").write_text("".join(f"{line}\n" for line in lines))


def write_video(path, shades):
    """A video of grey frames."""
    av = pytest.importorskip("av", reason="the extra video is not installed")
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg1video", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for shade in shades:
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), shade, np.uint8), "rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Experiment, workspace, export and what was printed, of all stages."""
    folder = tmp_path_factory.mktemp("lips")
    write_clips(folder)
    path = folder / "lips.yaml"
    path.write_text(EXPERIMENT.format(folder=folder, again=", *clips" * (TIMES - 1)))
    experiment = load_experiment(path)
    workspace = workspace_of(experiment)
    printed = io.StringIO()
    run_stages(experiment, workspace, rich.console.Console(file=printed, width=120))
    return experiment, workspace, workspace.export / "lips", printed.getvalue()


ASKED = [
    [content_of("r"), content_of("b", "BMP"), b"", b""],
    [content_of("r"), b"none", content_of("r"), b""],
    [content_of("b")] * 2 + [b""] * 2,
    [b""] * 4,
    [content_of("r"), b"", content_of("r"), b""],
    [content_of("b"), content_of("r")[:40], b"", b""],
]
CODES = [0, 2, 0, 1, 1, 4]
READ = ["rb", "", "bb", "", "", ""]


def answers(export, clips, signature="serving_default"):
    """What the export answers, a dict a clip."""
    return rows_of(loaded(export).signatures[signature](frames_bytes=tf.constant(clips)))


loaded = functools.cache(lambda export: tf.saved_model.load(str(export / "1")))


def rows_of(outputs):
    """Tensors or their protocol buffers by name as a dict a row, texts decoded."""
    columns = {
        name: each.numpy() if isinstance(each, tf.Tensor) else tf.make_ndarray(each)
        for name, each in outputs.items()
    }
    columns["text"] = [text.decode() for text in columns["text"]]
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def test_records_number_the_frames_of_clips_that_lie_beside_them(ran):
    _, workspace, _, _ = ran
    found = []
    for shard in workspace.shards("train"):
        pairs = read_pairs([shard])
        found += pairs.targets
        for text, ids, stored in zip(pairs.targets, pairs.source_ids, pairs.pictures, strict=True):
            assert ids == list(range(len(text)))
            frames = stored.read_frames("pixels", len(ids))  # [T, S, S, 3]
            colours = [Image.new("RGB", (1, 1), COLOURS[each]).getpixel((0, 0)) for each in text]
            assert (frames == np.array(colours)[:, None, None]).all()
    assert sorted(found) == sorted(TEXTS * TIMES)
    assert "rrrrr" in read_pairs(workspace.shards("test")).targets


def test_what_cannot_be_read_is_named_and_so_is_the_frame(ran):
    _, workspace, _, printed = ran
    for told in ("broken_picture", "broken/1.png", "no_frames", "nothing", "no_clip", "nowhere"):
        assert told in printed
    listed = (workspace.data / "pictures.jsonl").read_text().splitlines()
    (row,) = [each for each in map(json.loads, listed) if each["picture"] == "broken"][:1]
    assert (row["input"], row["broken"], row["dropped"]) == (0, "1.png", "broken_picture")
    assert row["frames"] == 1


def test_batches_hold_the_frames_of_their_clips(ran):
    experiment, workspace, _, _ = ran
    task = make_task(experiment, workspace)
    rows = 0
    for inputs, labels in task.training_batches(
        workspace.shards("train"), BatchOptions(16, 100), epoch=1
    ):
        pixels, frames = inputs["pixels"].numpy(), inputs["frames"].numpy()
        assert pixels.shape[:2] == (len(frames), frames.max())
        texts = task.vocabularies.target.decode(labels).numpy()
        for clip, count, text in zip(pixels, frames, texts, strict=True):
            reds = ["r" if frame[0, 0, 0] else "b" for frame in clip[:count]]
            assert "".join(reds) == text.decode()
            assert not clip[count:].any()
        rows += len(frames)
    assert rows == len(TEXTS) * TIMES


def test_the_clips_are_learned(ran):
    _, workspace, _, printed = ran
    scores = json.loads((workspace.scores / "test.json").read_text())
    assert scores["clips"] == len(TEXTS) + 1
    assert scores["right"] >= len(TEXTS) / (len(TEXTS) + 1)  # The longest was not learned from.
    assert scores["character_error_rate"] < 0.4
    assert "character error rate" in printed


def test_the_export_reads_as_the_model(ran):
    experiment, workspace, export, _ = ran
    task = make_task(experiment, workspace)
    model = task.build_model()
    restore_best(workspace, model)
    pairs = read_pairs(workspace.shards("valid"))
    chosen = [row for row, text in enumerate(pairs.targets) if text in TEXTS]
    clips = [clips_of(pairs)[row] for row in chosen]
    texts = [pairs.targets[row] for row in chosen]
    labels = task.vocabularies.target.encode(tf.constant(texts))
    ended = tf.concat([labels, tf.fill([len(texts), 1], 3)], 1).to_tensor()
    wanted = model.look(read_clips(clips), ended).numpy()
    files = [[content_of(letter) for letter in text] for text in texts]
    given = [each + [b""] * (4 - len(each)) for each in files]
    rows = answers(export, given, "align")
    assert [row["text"] for row in rows] == texts
    for row, each, text in zip(rows, wanted, texts, strict=True):
        found = np.array(row["alignment"])  # [L, T]
        count = len(text) + 1
        assert not found[:, len(text) :].any()
        np.testing.assert_allclose(found[:count, : len(text)], each[:count, : len(text)], atol=1e-4)


def test_a_broken_frame_fails_its_clip_alone(ran):
    export = ran[2]
    for signature in ("serving_default", "align"):
        rows = answers(export, ASKED, signature)
        assert [row["error_code"] for row in rows] == CODES
        assert [row["text"] for row in rows] == READ
    for clip, code, text in zip(ASKED, CODES, READ, strict=True):
        (alone,) = answers(export, [clip])
        assert (alone["error_code"], alone["text"]) == (code, text)
    # Of frames behind the longest that is read, none is looked at.
    longer = [[content_of("b")] * 4 + [b"none"]]
    assert answers(export, longer)[0]["error_code"] == 0


@pytest.fixture(scope="module")
def server(ran):
    """One that serves the export."""
    with Server(ServerOptions("lips", ran[2], port=0, rest_api_port=0)) as server:
        yield server


def test_a_server_reads_like_the_model(ran, server):
    export = ran[2]
    wanted, maps = answers(export, ASKED), answers(export, ASKED, "align")
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "lips"
    request.inputs["frames_bytes"].CopyFrom(tf.make_tensor_proto(ASKED))
    with grpc.insecure_channel(server.addresses.grpc) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        found = rows_of(stub.Predict(request, timeout=60).outputs)
        request.model_spec.signature_name = "align"
        drawn = rows_of(stub.Predict(request, timeout=60).outputs)
    instances = [
        {"frames_bytes": [{"b64": base64.b64encode(file).decode()} for file in clip]}
        for clip in ASKED
    ]
    answer = httpx.post(
        f"http://{server.addresses.rest}/v1/models/lips:predict",
        json={"instances": instances},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    for rows in (found, answer.json()["predictions"]):
        for row, each in zip(rows, wanted, strict=True):
            assert (row["text"], row["error_code"]) == (each["text"], each["error_code"])
            assert row["score"] == pytest.approx(each["score"], abs=1e-4)
    for row, each in zip(drawn, maps, strict=True):
        np.testing.assert_allclose(row["alignment"], each["alignment"], atol=1e-5)


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
def test_a_client_sends_rows_of_frames(server, protocol):
    with Client(getattr(server.addresses, protocol), protocol, "lips") as client:
        rows = client.predict({"frames_bytes": [[*clip[:2]] for clip in ASKED[:3]]})
        assert [row["text"] for row in rows] == READ[:3]
        assert [row["error_code"] for row in rows] == CODES[:3]
        with pytest.raises(UserError, match="row 2 is not a list of texts or bytes"):
            client.predict({"frames_bytes": [[b"file"], b"file"]})


@pytest.mark.parametrize("protocol", ["grpc", "rest"])
def test_a_client_on_asyncio_sends_rows_of_frames_in_several_batches(server, protocol):
    async def ask():
        address = getattr(server.addresses, protocol)
        async with AsyncClient(address, protocol, "lips", batch_size=2) as client:
            # Of a clip the frames that it has, and so of another number in each row.
            clips = [[frame for frame in clip if frame] or [b""] for clip in ASKED]
            return await client.predict({"frames_bytes": clips}), await client.predict(
                {"frames_bytes": clips[2:3]}, "align"
            )

    rows, (drawn,) = asyncio.run(ask())
    kept = [0, 1, 2, 3, 5]  # Row 4 has a frame that is missing between two others.
    assert [rows[place]["text"] for place in kept] == [READ[place] for place in kept]
    assert [rows[place]["error_code"] for place in kept] == [CODES[place] for place in kept]
    assert np.shape(drawn["alignment"])[1] == 2


@pytest.mark.parametrize("protocol", ["grpc", "rest", "model"])
def test_the_command_reads_folders_and_videos_and_names_what_it_cannot(
    ran, server, protocol, tmp_path, capfdbinary
):
    clips = ran[1].root.parent / "clips"
    write_video(tmp_path / "grey.mpg", [0, 120, 240])
    (tmp_path / "none.mpg").write_bytes(b"no video")
    (tmp_path / "empty.mpg").write_bytes(b"")
    given = [clips / "rb", clips / "nothing", tmp_path / "grey.mpg", tmp_path / "none.mpg"]
    given += [tmp_path / "empty.mpg", tmp_path / "nowhere.mpg", clips / "broken", clips / "b"]
    place = "" if protocol == "model" else getattr(server.addresses, protocol)
    model = ran[2] if protocol == "model" else None
    with pytest.raises(UserError) as raised:
        read_lips(given, place, protocol == "rest", model, "lips", 3, 60.0)
    lines = dict(line.split("\t") for line in capfdbinary.readouterr().out.decode().splitlines())
    assert list(lines) == [str(each) for each in (clips / "rb", given[2], clips / "b")]
    assert (lines[str(clips / "rb")], lines[str(clips / "b")]) == ("rb", "b")
    for problem, told in zip(
        str(raised.value).splitlines(),
        ["holds no frame", "not a whole video", "not a whole video", "no such file", "is torn"],
        strict=True,
    ):
        assert told in problem
    assert str(raised.value).startswith(f"{clips / 'nothing'}: ")


def test_the_frames_of_a_video_are_sent_as_they_are_prepared(tmp_path):
    write_video(tmp_path / "grey.mpg", range(0, 250, 50))
    sent = [
        np.asarray(Image.open(io.BytesIO(file))) for file in frames_of(tmp_path / "grey.mpg", 3)
    ]
    seen = itertools.islice(read_clip(str(tmp_path / "grey.mpg"), 64 * 48), 3)
    np.testing.assert_array_equal(sent, list(seen))


def test_warm_up_sends_frames(ran):
    requests = read_warmup(ran[2] / "1")
    assert len(requests) == 2
    assert all(tf.make_ndarray(each.inputs["frames_bytes"]).ndim == 2 for each in requests)


def test_records_of_other_frames_are_refused(ran, tmp_path):
    experiment, workspace, _, _ = ran
    load_manifest(workspace, experiment)
    clips = experiment.data.train[0].images
    shutil.copytree(clips, tmp_path / "clips")
    (tmp_path / "clips" / "rb" / "1.png").write_bytes(content_of("r"))
    inputs = [f"data.{split}.0.images={tmp_path / 'clips'}" for split in ("train", "valid", "test")]
    path = workspace.root.parent / "lips.yaml"
    with pytest.raises(UserError, match="pictures changed"):
        load_manifest(workspace, load_experiment(path, inputs))


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("data.pictures.fine_tune=false", "fine_tune to true"),
        ("data.train.0.format=documents", "format 'documents'"),
        ("train.jit_compile=true", "train.jit_compile pads batches"),
        ("vocabulary.source_size=99", "'lip_reading'"),
        ("model.visual_answering.hops=2", "'visual_answering'"),
        ("train.best_metric=cider", "chrf, bleu"),
        ("model.cell=ntm", "set it to zero"),
    ],
)
def test_what_cannot_be_is_told(ran, setting, told):
    path = ran[1].root.parent / "lips.yaml"
    with pytest.raises(UserError, match=told):
        load_experiment(path, [setting])


def test_a_video_is_read_frame_by_frame(tmp_path):
    path = tmp_path / "clip.mpg"
    write_video(path, (0, 120, 240))
    frames = list(read_clip(str(path), 64 * 48))
    assert [each.shape for each in frames] == [(48, 64, 3)] * 3
    assert [round(each.mean() / 120) for each in frames] == [0, 1, 2]
    assert inspect_clip(str(path), 64 * 48).frames == 3
    assert inspect_clip(str(path), 64 * 48 - 1).dropped == "huge_picture"
    path.write_bytes(b"no video")
    assert inspect_clip(str(path), 64 * 48).dropped == "broken_clip"


def test_a_video_without_its_reader_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    (tmp_path / "clip.mpg").write_bytes(b"any")
    with pytest.raises(UserError, match=r"pip install 'seqloom\[video\]'"):
        inspect_clip(str(tmp_path / "clip.mpg"), 100)


def test_scores_are_edits_over_what_was_said():
    assert edits("kitten", "sitting") == 3
    assert edits("", "ab") == edits("ab", "") == 2
    scores = score_lips(["bin blue", "set red"], ["bin blue now", "set red"])
    assert scores.right == 0.5
    assert scores.word_error_rate == 1 / 5
    assert scores.character_error_rate == 4 / 19
