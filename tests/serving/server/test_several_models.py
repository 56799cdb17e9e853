"""Several models, their versions and labels, and configurations that change, over real sockets."""

import contextlib
import json
import shutil
import time
import urllib.error
import urllib.request

import grpc
import pytest
from google.protobuf import text_format
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_management_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)
from tensorflow_serving.config import model_server_config_pb2

from models.errors import UserError
from serving.server.main import Server, serve
from serving.server.model_config import ModelConfig, from_proto, read_config_file
from serving.server.models import Models
from serving.server.options import ServerOptions
from serving.server.status import ServingError
from serving.server.version_choice import All, Latest, Specific

SPECIFIC = "model_version_policy { specific { versions: 1 versions: 2 } }"


def entry(name, base, more="", platform="tensorflow"):
    return f'config {{ name: "{name}" base_path: "{base}" model_platform: "{platform}" {more} }}\n'


def config_of(*entries):
    text = f"model_config_list {{ {''.join(entries)} }}"
    return text_format.Parse(text, model_server_config_pb2.ModelServerConfig())


@pytest.fixture
def folders(tmp_path, tiny_exports):
    """Base paths: `first` has the versions 1 to 3, `second` has version 7, `third` nothing good."""
    for name, versions in (("first", (1, 2, 3)), ("second", (7,))):
        for number in versions:
            mark = "two " if number == 2 else ""
            shutil.copytree(tiny_exports[mark], tmp_path / name / str(number))
    (tmp_path / "third" / "1").mkdir(parents=True)
    return tmp_path


@contextlib.contextmanager
def served(folder, *entries, **options):
    path = folder / "models.config"
    path.write_text(f"model_config_list {{ {''.join(entries)} }}")
    defaults = {"port": 0, "rest_api_port": 0, "file_system_poll_wait_seconds": 0.05}
    with Server(ServerOptions(model_config_file=path, **(defaults | options))) as server:
        with grpc.insecure_channel(server.addresses.grpc) as channel:
            yield Asked(channel, server.addresses.rest)


class Asked:
    """Asks one server over both APIs."""

    def __init__(self, channel, rest):
        self._prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        self._model = model_service_pb2_grpc.ModelServiceStub(channel)
        self._rest = rest

    def translate(self, name, version=None, label=None):
        request = predict_pb2.PredictRequest()
        request.model_spec.name = name
        if version is not None:
            request.model_spec.version.value = version
        if label is not None:
            request.model_spec.version_label = label
        request.inputs["text"].dtype = 7
        request.inputs["text"].tensor_shape.dim.add().size = 1
        request.inputs["text"].string_val.append(b"a")
        response = self._prediction.Predict(request, timeout=30)
        (text,) = response.outputs["translation"].string_val
        return response.model_spec.version.value, text.decode()

    def states(self, name):
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = name
        statuses = self._model.GetModelStatus(request, timeout=30).model_version_status
        names = get_model_status_pb2.ModelVersionStatus.State.Name
        return {one.version: names(one.state) for one in statuses}

    def reload(self, config, *metric_names):
        request = model_management_pb2.ReloadConfigRequest(config=config)
        request.metric_names.extend(metric_names)
        return self._model.HandleReloadConfigRequest(request, timeout=60)

    def post(self, path):
        request = urllib.request.Request(
            f"http://{self._rest}/v1/models/{path}:predict", b'{"instances": ["a"]}'
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                (row,) = json.load(response)["predictions"]
                return response.status, row["translation"]
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)["error"]


def failure(call, *arguments, **options):
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, **options)
    return caught.value.code().name, caught.value.details()


def eventually(condition, seconds=60):
    return any(condition() or time.sleep(0.05) for _ in range(seconds * 20))


def test_each_model_serves_the_versions_of_its_policy(folders):
    first = entry("first", folders / "first", SPECIFIC)
    with served(folders, first, entry("second", folders / "second")) as asked:
        assert eventually(lambda: asked.states("first") == {1: "AVAILABLE", 2: "AVAILABLE"})
        assert asked.states("second") == {7: "AVAILABLE"}
        assert asked.translate("first") == (2, "two A")
        assert asked.translate("first", version=1) == (1, "A")
        assert asked.translate("second") == (7, "A")
        assert failure(asked.translate, "first", version=3) == (
            "NOT_FOUND",
            "Servable not found for request: Specific(first, 3)",
        )
        assert asked.post("first/versions/1") == (200, "A")
        assert asked.post("none") == (404, "Servable not found for request: Latest(none)")


def test_labels_stand_for_versions_over_both_apis(folders):
    labels = 'version_labels { key: "old" value: 1 } version_labels { key: "new" value: 2 }'
    first = entry("first", folders / "first", SPECIFIC + labels)
    with served(folders, first, allow_version_labels_for_unavailable_models=True) as asked:
        assert eventually(lambda: len(asked.states("first")) == 2)
        assert eventually(lambda: set(asked.states("first").values()) == {"AVAILABLE"})
        assert asked.translate("first", label="old") == (1, "A")
        assert asked.translate("first", label="new") == (2, "two A")
        assert asked.post("first/labels/old") == (200, "A")
        assert asked.post("first/labels/new") == (200, "two A")
        unknown = "Unrecognized servable version label: none"
        assert failure(asked.translate, "first", label="none") == ("INVALID_ARGUMENT", unknown)
        assert asked.post("first/labels/none") == (400, unknown)


def test_labels_at_the_start_need_the_flag(folders):
    labelled = entry("first", folders / "first", 'version_labels { key: "x" value: 3 }')
    with pytest.raises(ServingError) as caught, served(folders, labelled):
        pass
    assert str(caught.value) == (
        "FAILED_PRECONDITION: Request to assign label to version 3 of model first, which is not "
        "currently available for inference"
    )


def test_a_label_is_given_to_a_version_that_answers_and_moved_to_no_other(folders):
    def labelled(number):
        more = f'version_labels {{ key: "live" value: {number} }}'
        return config_of(entry("first", folders / "first", SPECIFIC + more))

    first = entry("first", folders / "first", SPECIFIC)
    with served(folders, first, allow_version_labels_for_unavailable_models=True) as asked:
        assert eventually(lambda: set(asked.states("first").values()) == {"AVAILABLE"})
        asked.reload(labelled(1))
        assert asked.translate("first", label="live") == (1, "A")
        code, details = failure(asked.reload, labelled(9))
        assert (code, "version 9 of model first" in details) == ("FAILED_PRECONDITION", True)
        assert asked.translate("first", label="live") == (1, "A")
        asked.reload(labelled(2))
        assert asked.translate("first", label="live") == (2, "two A")


def test_a_new_configuration_replaces_the_old_one_whole(folders):
    with served(folders, entry("first", folders / "first")) as asked:
        asked.reload(config_of(entry("second", folders / "second")))
        assert asked.translate("second") == (7, "A")
        assert eventually(lambda: asked.states("first") == {3: "END"})
        assert failure(asked.translate, "first") == (
            "NOT_FOUND",
            "Servable not found for request: Latest(first)",
        )
        both = [entry("second", folders / "second"), entry("first", folders / "first", SPECIFIC)]
        asked.reload(config_of(*both))
        assert asked.translate("second") == (7, "A")
        assert asked.translate("first") == (2, "two A")


def test_a_reload_tells_what_counters_grew_by(folders, monkeypatch):
    first = entry("first", folders / "first")
    names = ["/tensorflow/serving/request_count", "/tensorflow/serving/request_latency", "other"]
    with served(folders, first) as asked:
        asked.translate("first")
        response = asked.reload(config_of(first), *names)
        assert response.HasField("status") and response.status.error_code == 0
        grown = {metric.name: metric.int64_value_increase for metric in response.metric}
        assert grown == dict.fromkeys(names, 0)
        reload = Models.reload

        def asked_meanwhile(self, config):
            asked.translate("first")
            reload(self, config)

        monkeypatch.setattr(Models, "reload", asked_meanwhile)
        response = asked.reload(config_of(first), *names)
        grown = {metric.name: metric.int64_value_increase for metric in response.metric}
        assert grown == {**dict.fromkeys(names, 0), names[0]: 1}


def test_configurations_that_cannot_be_served_leave_the_old_one(folders):
    twice = config_of(entry("m", "/a"), entry("m", "/b"))
    with served(folders, entry("first", folders / "first")) as asked:
        for config, details in (
            (twice, "Illegal to list model m multiple times in config list"),
            (
                config_of(entry("m", "a")),
                "Expected model m to have an absolute path or URI; got base_path()=a",
            ),
            (
                config_of(entry("m", "/a", platform="")),
                "Illegal setting neither ModelServerConfig::model_type (deprecated) nor "
                "ModelServerConfig::model_platform.",
            ),
            (
                config_of(entry("m", "/a", "logging_config { sampling_config {} }")),
                "No request-logger-creator provided.",
            ),
            (
                model_server_config_pb2.ModelServerConfig(),
                "ServerModelConfig type not supported by HandleReloadConfigRequest. Only "
                "ModelConfigList is currently supported",
            ),
        ):
            assert failure(asked.reload, config) == ("INVALID_ARGUMENT", details)
        assert asked.translate("first") == (3, "A")


def test_a_model_that_does_not_load_fails_the_reload(folders):
    with served(folders, entry("first", folders / "first")) as asked:
        both = config_of(entry("first", folders / "first"), entry("third", folders / "third"))
        assert failure(asked.reload, both) == (
            "UNKNOWN",
            "Some models did not become available: {{name: third version: 1}, }",
        )
        assert asked.translate("first") == (3, "A")
        assert asked.states("third") == {1: "END"}


def test_the_file_is_read_again(folders):
    def write(text):
        beside = folders / "models.config.new"
        beside.write_text(text)
        beside.rename(folders / "models.config")

    first = entry("first", folders / "first")
    with served(folders, first, model_config_file_poll_wait_seconds=0.05) as asked:
        write("no configuration")
        time.sleep(0.3)
        assert asked.translate("first") == (3, "A")
        write(f"model_config_list {{ {entry('second', folders / 'second')} }}")
        assert eventually(lambda: asked.states("first") == {3: "END"})
        assert eventually(lambda: asked.states("second") == {7: "AVAILABLE"})
        assert asked.translate("second") == (7, "A")


def test_a_file_that_is_no_configuration(tmp_path):
    path = tmp_path / "models.config"
    path.write_text('model_config_list {\n  config { nmae: "m" }\n}')
    with pytest.raises(UserError, match=r"Invalid protobuf file: '.*models.config': line 2:\d+"):
        serve(ServerOptions(model_config_file=path, port=0, rest_api_port=0))
    path.write_text(f"model_config_list {{ {entry('m', '/a') + entry('m', '/b')} }}")
    with pytest.raises(UserError, match=r"models.config: Illegal to list model m multiple times"):
        serve(ServerOptions(model_config_file=path, port=0, rest_api_port=0))
    with pytest.raises(UserError, match="nowhere: cannot be read"):
        read_config_file(tmp_path / "nowhere")
    with pytest.raises(UserError, match="neither model_base_path nor model_config_file"):
        serve(ServerOptions())


@pytest.mark.parametrize(
    ("policy", "choice", "chosen"),
    [
        ("", Latest(0), [9]),
        ("model_version_policy { latest { num_versions: 2 } }", Latest(2), [5, 9]),
        ("model_version_policy { all {} }", All(), [1, 5, 9]),
        (
            "model_version_policy { specific { versions: 5 versions: 6 } }",
            Specific(frozenset([5, 6])),
            [5],
        ),
    ],
)
def test_policies(tmp_path, policy, choice, chosen):
    (config,) = from_proto(config_of(entry("m", tmp_path, policy)))
    assert config == ModelConfig("m", tmp_path, choice, {})
    versions = {number: tmp_path / str(number) for number in (1, 5, 9)}
    assert sorted(config.choice.choose(versions)) == chosen
