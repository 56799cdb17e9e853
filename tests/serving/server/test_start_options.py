"""What the flags of a start change in the answers, over real sockets."""

import shutil
import subprocess
import sys
import urllib.error
import urllib.request

import grpc
import numpy as np
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tensorflow_serving.apis import (
    classification_pb2,
    predict_pb2,
    prediction_log_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from models.errors import UserError
from serving.server.batching_rules import BatchingRules, rules_of_model
from serving.server.flags import parse
from serving.server.main import Server
from serving.server.options import ServerOptions
from serving.server.profiler import SERVICE
from serving.server.saved_model import SavedModelSession
from serving.server.session_rules import session_rules
from serving.server.status import ServingError
from serving.warmup import warmup_path
from tests.serving.server import example_models


def started(base_path, *flags):
    options = ServerOptions("m", base_path, port=0, rest_api_port=0)
    return Server(ServerOptions(**{**vars(options), **parse(flags)}))


def predict_request(*texts, signature=""):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "m"
    request.model_spec.signature_name = signature
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(texts or [b"a"]))
    return request


def code_of(call, *arguments):
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, timeout=30)
    return caught.value.code().name, caught.value.details()


class HalfPlusTwo(tf.Module):
    """Signatures of TensorFlow 2, all of whose methods are called Predict."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
    def regress(self, inputs):
        return {"outputs": 0.5 * self._x(inputs) + 2.0}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
    def classify(self, inputs):
        return {"scores": 0.5 * self._x(inputs) + 2.0}

    def _x(self, inputs):
        return tf.io.parse_example(inputs, {"x": tf.io.FixedLenFeature([1], tf.float32)})["x"]


@pytest.fixture(scope="module")
def half_plus_two(tmp_path_factory):
    base = tmp_path_factory.mktemp("half")
    model = HalfPlusTwo()
    signatures = {"regress_x_to_y": model.regress, "classify_x_to_y": model.classify}
    tf.saved_model.save(model, str(base / "1"), signatures)
    return base


def filled(request, signature):
    request.model_spec.name = "m"
    request.model_spec.signature_name = signature
    example = request.input.example_list.examples.add()
    example.features.feature["x"].float_list.value.append(2.0)
    return request


def test_models_of_tensorflow_2_classify_and_regress(half_plus_two):
    regress = filled(regression_pb2.RegressionRequest(), "regress_x_to_y")
    classify = filled(classification_pb2.ClassificationRequest(), "classify_x_to_y")
    with started(half_plus_two) as server, grpc.insecure_channel(server.addresses.grpc) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        assert stub.Regress(regress, timeout=30).result.regressions[0].value == 3.0
        (row,) = stub.Classify(classify, timeout=30).result.classifications
        assert [one.score for one in row.classes] == [3.0]


def test_method_names_are_checked_where_a_flag_asks(half_plus_two, tmp_path):
    flag = "--enable_signature_method_name_check"
    regress = filled(regression_pb2.RegressionRequest(), "regress_x_to_y")
    classify = filled(classification_pb2.ClassificationRequest(), "classify_x_to_y")
    with started(half_plus_two, flag) as server:
        with grpc.insecure_channel(server.addresses.grpc) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            for call, request, kind, method in (
                (stub.Regress, regress, "regression", "regress"),
                (stub.Classify, classify, "classification", "classify"),
            ):
                assert code_of(call, request) == (
                    "INVALID_ARGUMENT",
                    f"Expected {kind} signature method_name to be tensorflow/serving/{method}. "
                    "Was: tensorflow/serving/predict",
                )
            initialiser = predict_pb2.PredictRequest()
            initialiser.model_spec.name = "m"
            initialiser.model_spec.signature_name = "__saved_model_init_op"
            code, details = code_of(stub.Predict, initialiser)
            assert (code, details[:52]) == (
                "INTERNAL",
                "Expected prediction signature method_name to be one ",
            )


def test_a_signature_that_names_no_tensor_is_the_graphs_to_refuse(base_path):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "m"
    request.model_spec.signature_name = "__saved_model_init_op"
    with started(base_path) as server, grpc.insecure_channel(server.addresses.grpc) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        assert code_of(stub.Predict, request) == (
            "INVALID_ARGUMENT",
            "Tensor NoOp:0, specified in either feed_devices or fetch_devices was not found in the "
            "Graph",
        )


def test_tensors_come_as_bytes_where_a_flag_asks(base_path):
    with started(base_path, "--enable_serialization_as_tensor_content") as server:
        with grpc.insecure_channel(server.addresses.grpc) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            outputs = stub.Predict(predict_request(b"a", b"b" * 300), timeout=30).outputs
    assert not outputs["translation"].string_val and not outputs["score"].float_val
    # Of each string its length, then all of them.
    assert outputs["translation"].tensor_content == b"\x01\xac\x02A" + b"B" * 300
    assert tf.make_ndarray(outputs["score"]).tolist() == [np.float32(-1 / 3), -100.0]


def test_health_and_profiler_can_be_left_out(base_path):
    flags = ("--enable_grpc_healthcheck_service=false", "--enable_profiler=false")
    with started(base_path, *flags) as server:
        with grpc.insecure_channel(server.addresses.grpc) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            assert code_of(health.Check, health_pb2.HealthCheckRequest())[0] == "UNIMPLEMENTED"
            monitor = channel.unary_unary(f"/{SERVICE}/Monitor")
            assert code_of(monitor, b"") == ("UNIMPLEMENTED", "Method not found!")
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            stub.Predict(predict_request(), timeout=30)


def record(folder, *requests):
    warmup_path(folder).parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(warmup_path(folder))) as writer:
        for request in requests:
            log = prediction_log_pb2.PredictLog(request=request)
            writer.write(prediction_log_pb2.PredictionLog(predict_log=log).SerializeToString())


def test_warm_up_can_be_left_out(base_path):
    record(base_path / "1", predict_request(signature="none"))
    with pytest.raises(ServingError, match='Serving signature key "none" not found'):
        started(base_path).__enter__()
    with started(base_path, "--enable_model_warmup=false"):
        pass


def test_warm_up_repeats_as_often_as_asked(base_path, monkeypatch):
    record(base_path / "1", predict_request(), predict_request(b"b"))
    runs = []
    run = SavedModelSession.run
    monkeypatch.setattr(
        SavedModelSession, "run", lambda self, *given: runs.append(1) or run(self, *given)
    )
    for flag, expected in (("3", 6), ("0", 2)):
        runs.clear()
        with started(base_path, f"--num_request_iterations_for_warmup={flag}"):
            assert len(runs) == expected


def test_the_folder_of_a_model_is_looked_at_once_where_asked(base_path, tiny_exports):
    with started(base_path, "--file_system_poll_wait_seconds=0") as server:
        (versions,) = (server._manager.get("m"),)
        looks = []
        choose = versions._choice.choose
        versions._choice = type(
            "Spy", (), {"choose": lambda _, on: looks.append(1) or choose(on)}
        )()
        shutil.copytree(tiny_exports["two "], base_path / ".copying")
        (base_path / ".copying").rename(base_path / "2")
        url = f"http://{server.addresses.rest}/v1/models/m/versions/2"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(url, timeout=30)
        assert looks == []


def test_the_graph_of_other_tags_is_served(tmp_path):
    folder = tmp_path / "base" / "1"
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None], name="x")
        signature = {
            tags: v1.saved_model.signature_def_utils.predict_signature_def({"x": x}, {"y": y})
            for tags, y in (("serve", x + 1.0), ("serve,gpu", x + 2.0))
        }
        builder = v1.saved_model.Builder(str(folder))
        builder.add_meta_graph_and_variables(
            session, ["serve"], {"serving_default": signature["serve"]}
        )
        builder.add_meta_graph(["serve", "gpu"], {"serving_default": signature["serve,gpu"]})
        builder.save()
    for tags, expected in (("serve", 2.0), ("gpu,serve", 3.0)):
        with started(tmp_path / "base", f"--saved_model_tags={tags}") as server:
            url = f"http://{server.addresses.rest}/v1/models/m:predict"
            request = urllib.request.Request(url, b'{"instances": [1.0]}')
            with urllib.request.urlopen(request, timeout=30) as response:
                assert str(expected).encode() in response.read()
    with pytest.raises(ServingError, match="no graph is tagged 'tpu'"):
        started(tmp_path / "base", "--saved_model_tags=tpu").__enter__()


def config_of(*flags):
    return session_rules(ServerOptions(**parse(flags))).session_config()


def test_threads_of_a_session(tmp_path):
    both = config_of("--tensorflow_session_parallelism=3")
    assert (both.intra_op_parallelism_threads, both.inter_op_parallelism_threads) == (3, 3)
    narrow = config_of("--tensorflow_session_parallelism=3", "--tensorflow_intra_op_parallelism=2")
    assert (narrow.intra_op_parallelism_threads, narrow.inter_op_parallelism_threads) == (2, 0)
    file = tmp_path / "session.config"
    file.write_text("inter_op_parallelism_threads: 5 gpu_options { visible_device_list: '1' }")
    config = config_of(
        f"--tensorflow_session_config_file={file}",
        "--tensorflow_intra_op_parallelism=2",
        "--per_process_gpu_memory_fraction=0.25",
    )
    assert (config.intra_op_parallelism_threads, config.inter_op_parallelism_threads) == (2, 5)
    assert config.gpu_options.visible_device_list == "1"
    assert config.gpu_options.per_process_gpu_memory_fraction == 0.25


def test_settings_that_contradict_each_other(base_path, tmp_path):
    three = {"session_threads": 1, "intra_op_threads": 1, "inter_op_threads": 1}
    with pytest.raises(UserError, match="You cannot configure all"):
        Server(ServerOptions("m", base_path, **three))
    with pytest.raises(UserError, match="per_process_gpu_memory_fraction is 2; .* from 0 to 1"):
        Server(ServerOptions("m", base_path, gpu_memory_fraction=2.0))
    file = tmp_path / "session.config"
    file.write_text("threads: 5")
    with pytest.raises(UserError, match=r"--tensorflow_session_config_file: Invalid protobuf file"):
        Server(ServerOptions("m", base_path, session_config_file=file))


def test_a_version_brings_parameters_of_batches(base_path, tiny_exports):
    common = BatchingRules(num_batch_threads=3, thread_pool_name="common")
    assert rules_of_model(base_path / "1", common) is None
    own = base_path / "1" / "batching_params.pbtxt"
    own.write_text("max_batch_size { value: 2 } num_batch_threads { value: 9 }")
    rules = BatchingRules(max_batch_size=2, num_batch_threads=3, thread_pool_name="common")
    assert rules_of_model(base_path / "1", common) == rules
    long = predict_request(b"a", b"b", b"c")
    flags = ("--enable_batching", "--enable_per_model_batching_parameters")
    with started(base_path, *flags) as server:
        with grpc.insecure_channel(server.addresses.grpc) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            stub.Predict(predict_request(), timeout=30)
            code, details = code_of(stub.Predict, long)
            assert code == "INVALID_ARGUMENT"
            assert details == "Task size 3 is larger than maximum input batch size 2"
    own.write_text("max_batch: 2")
    with pytest.raises(ServingError, match="batching_params.pbtxt: Invalid protobuf file"):
        started(base_path, *flags).__enter__()


def test_the_version_is_told_without_serving():
    line = [sys.executable, "-m", "pipeline.cli", "serve", "--engine=embedded", "--version"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("TensorFlow ModelServer: ") and "seqloom" in first
    assert second == f"TensorFlow Library: {tf.__version__}"


def test_signatures_that_name_their_method_pass_the_check(tmp_path):
    example_models.save(tmp_path / "1")
    flag = "--enable_signature_method_name_check"
    with started(tmp_path, flag) as server:
        with grpc.insecure_channel(server.addresses.grpc) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            request = filled(regression_pb2.RegressionRequest(), "")
            assert stub.Regress(request, timeout=30).result.regressions[0].value == 5.0
