"""Models whose versions lie at URLs, in TensorFlow's file system in memory."""

import time

import pytest
import tensorflow as tf

from models.errors import UserError
from pipeline import serve
from pipeline.experiment_file import load_experiment, workspace_of
from serving.client import Client
from serving.server import url_folder
from serving.server.engine import arguments
from serving.server.flags import parse
from serving.server.main import Server
from serving.server.model_config import from_proto
from serving.server.model_config import model_server_config_pb2 as configs
from serving.server.options import ServerOptions, check
from serving.server.status import ServingError
from serving.server.url_folder import UrlFolder, version_here
from serving.server.version_folders import versions_on_disk

MODEL = "saved_model.pb"


@pytest.fixture
def base(request, monkeypatch, tmp_path):
    """A folder at a URL, which may be served from, and a folder here for what is temporary."""
    monkeypatch.setattr(url_folder, "SERVED_SCHEMES", ("ram",))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return f"ram://{request.node.name}/translation"


def send(saved, version):
    """Send a SavedModel as `seqloom export` does, its own file last."""
    files = [path for path in saved.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: path.name == MODEL):
        url = f"{version}/{path.relative_to(saved).as_posix()}"
        tf.io.gfile.makedirs(url.rpartition("/")[0])
        yield url
        tf.io.gfile.copy(str(path), url)


def test_versions_at_a_url_are_served_once_they_are_whole(base, tiny_exports, tmp_path):
    list(send(tiny_exports[""], f"{base}/1"))
    coming = send(tiny_exports["two "], f"{base}/2")
    while not next(coming).endswith(MODEL):
        pass
    options = ServerOptions(
        "translation", UrlFolder(base), port=0, rest_api_port=0, file_system_poll_wait_seconds=0.02
    )
    with Server(options) as server:
        with Client(server.addresses.grpc, "grpc", "translation") as client:

            def answer():
                (translation,) = client.translate(["hello"])
                return translation.text

            assert answer() == "HELLO"
            assert list(versions_on_disk(UrlFolder(base))) == [1]
            assert list(coming) == []
            deadline = time.monotonic() + 60
            while answer() != "two HELLO":
                assert time.monotonic() < deadline, "the second version is not served"
                time.sleep(0.05)
    assert not list(tmp_path.glob("seqloom-version-*"))


def test_a_copy_is_the_whole_folder_and_goes(base, tiny_exports):
    list(send(tiny_exports[""], f"{base}/7"))
    expected = {
        path.relative_to(tiny_exports[""]): path.read_bytes()
        for path in tiny_exports[""].rglob("*")
        if path.is_file()
    }
    with version_here(UrlFolder(f"{base}/7")) as folder:
        found = {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        assert folder.name == "7" and found == expected
    assert not folder.exists()


def test_a_folder_that_cannot_be_read_is_an_error_of_the_system(base):
    with pytest.raises(OSError, match="'s3' not implemented"):
        UrlFolder("s3://bucket/a").holds_a_model()
    with pytest.raises(OSError, match="nowhere"):
        versions_on_disk(UrlFolder(f"{base}/nowhere"))


def test_flags_and_files_of_models_take_urls(monkeypatch):
    url = "gs://bucket/export/translation"
    (given,) = parse([f"--model_base_path={url}"]).values()
    assert given == UrlFolder(url)
    options = ServerOptions("translation", given)
    check(options)
    assert f"--model_base_path={url}" in arguments(options)
    with pytest.raises(UserError, match="model_base_path: s3://b/a: .* read gs://, and no s3://"):
        check(ServerOptions("translation", UrlFolder("s3://b/a")))
    config = configs.ModelServerConfig()
    model = config.model_config_list.config.add(
        name="a", base_path=url, model_platform="tensorflow"
    )
    assert from_proto(config)[0].base_path == UrlFolder(url)
    model.base_path = "export/translation"
    with pytest.raises(ServingError, match="absolute path or URI"):
        from_proto(config)


def test_the_exports_of_a_workspace_at_a_url_are_served_and_seldom_looked_for(
    base, store, tmp_path, monkeypatch
):
    path = tmp_path / "small.yaml"
    path.write_text(
        f"name: small\nworkspace: {store}/run\ndata: {{train: [{{format: tsv, path: a.tsv}}]}}\n"
    )
    served = []
    monkeypatch.setattr(serve, "serve", lambda options, engine: served.append(options) or 0)

    def run(*settings):
        experiment = load_experiment(path, settings)
        return serve.serve_stage(experiment, workspace_of(experiment), None, {})

    with pytest.raises(UserError, match=f"{store}/run/export/translation: no exported version yet"):
        run()
    export = workspace_of(load_experiment(path)).export / "translation" / "1"
    (export / MODEL).write_bytes(b"a model")
    assert run() == run("serving.file_system_poll_wait_seconds=2") == 0
    assert [one.base_path for one in served] == [UrlFolder(f"{store}/run/export/translation")] * 2
    assert [one.file_system_poll_wait_seconds for one in served] == [30, 2]
    assert served[0].max_num_load_retries * served[0].load_retry_interval_seconds == 60
    with pytest.raises(UserError, match="workspace: s3://.* read ram://, and no s3://"):
        run("workspace=s3://bucket/run")
