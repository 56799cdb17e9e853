"""Classify, Regress and MultiInference over real sockets, by gRPC and by REST."""

import http.client
import json

import grpc
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    inference_pb2,
    prediction_log_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from serving.server.main import Server
from serving.server.options import ServerOptions
from tests.serving.server import example_models


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    base = tmp_path_factory.mktemp("examples") / "half"
    warmed = example_models.save(base / "5") / "assets.extra" / "tf_serving_warmup_requests"
    warmed.parent.mkdir()
    regress = filled(regression_pb2.RegressionRequest(), "", [example(1.0)])
    classify = filled(classification_pb2.ClassificationRequest(), "classify", [example(1.0)])
    logs = [
        prediction_log_pb2.PredictionLog(regress_log={"request": regress}),
        prediction_log_pb2.PredictionLog(classify_log={"request": classify}),
        prediction_log_pb2.PredictionLog(multi_inference_log={"request": tasks(("", "regress"))}),
    ]
    with tf.io.TFRecordWriter(str(warmed)) as writer:
        for log in logs:
            writer.write(log.SerializeToString())
    config = base.parent / "monitoring.config"
    config.write_text("prometheus_config { enable: true }")
    options = ServerOptions("half", base, port=0, rest_api_port=0, monitoring_config_file=config)
    with Server(options) as server:
        yield server


@pytest.fixture(scope="module")
def prediction(server):
    with grpc.insecure_channel(server.addresses.grpc) as channel:
        yield prediction_service_pb2_grpc.PredictionServiceStub(channel)


@pytest.fixture(scope="module")
def post(server):
    def post(method, request, model="half"):
        connection = http.client.HTTPConnection(server.addresses.rest, timeout=60)
        connection.request("POST", f"/v1/models/{model}:{method}", json.dumps(request))
        response = connection.getresponse()
        content = response.read().decode()
        connection.close()
        return response.status, content

    return post


def example(x=None, word=None):
    one = tf.train.Example()
    if x is not None:
        one.features.feature["x"].float_list.value.append(x)
    if word is not None:
        one.features.feature["word"].bytes_list.value.append(word)
    return one


def filled(request, signature, examples):
    request.model_spec.name = "half"
    request.model_spec.signature_name = signature
    request.input.example_list.examples.extend(examples)
    return request


def tasks(*pairs):
    request = inference_pb2.MultiInferenceRequest()
    for signature, method in pairs:
        task = request.tasks.add(method_name=f"tensorflow/serving/{method}")
        task.model_spec.name = "half"
        task.model_spec.signature_name = signature
    request.input.example_list.examples.append(example(3.0, b"ab"))
    return request


def regression(signature="", examples=None):
    examples = [example(1.0), example(2.5)] if examples is None else examples
    return filled(regression_pb2.RegressionRequest(), signature, examples)


def classification(signature="classify", examples=None):
    examples = [example(1.0, b"ab"), example(2.5)] if examples is None else examples
    return filled(classification_pb2.ClassificationRequest(), signature, examples)


def failure(call, *arguments):
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, timeout=30)
    return caught.value.code().name, caught.value.details()


def test_regress(prediction):
    response = prediction.Regress(regression(), timeout=30)
    assert [one.value for one in response.result.regressions] == [3.0, 6.0]
    spec = response.model_spec
    assert (spec.name, spec.signature_name, spec.version.value) == ("half", "serving_default", 5)
    column = prediction.Regress(regression("column"), timeout=30)
    assert [one.value for one in column.result.regressions] == [1.0, 2.5]


@pytest.mark.parametrize(
    ("signature", "labels", "scores"),
    [
        ("classify", ["ab", "ab!", "none", "none!"], [1.0, -1.0, 2.5, -2.5]),
        ("only_classes", ["ab", "ab!", "none", "none!"], [0.0] * 4),
        ("only_scores", [""] * 4, [1.0, -1.0, 2.5, -2.5]),
    ],
)
def test_classify(prediction, signature, labels, scores):
    response = prediction.Classify(classification(signature), timeout=30)
    rows = response.result.classifications
    assert [len(row.classes) for row in rows] == [2, 2]
    assert [one.label for row in rows for one in row.classes] == labels
    assert [one.score for row in rows for one in row.classes] == scores
    assert response.model_spec.signature_name == signature


def test_a_context_is_shared_and_an_example_outdoes_it(prediction):
    request = classification(examples=())
    given = request.input.example_list_with_context
    given.context.CopyFrom(example(7.0, b"all"))
    given.examples.extend([example(), example(word=b"own")])
    rows = prediction.Classify(request, timeout=30).result.classifications
    assert [(row.classes[0].label, row.classes[0].score) for row in rows] == [
        ("all", 7.0),
        ("own", 7.0),
    ]


def test_several_methods_over_the_same_examples(prediction):
    request = tasks(("", "regress"), ("classify", "classify"))
    regress, classify = prediction.MultiInference(request, timeout=30).results
    assert [one.value for one in regress.regression_result.regressions] == [7.0]
    (row,) = classify.classification_result.classifications
    assert [(one.label, one.score) for one in row.classes] == [("ab", 3.0), ("ab!", -3.0)]
    assert regress.model_spec.signature_name == "serving_default"
    assert (classify.model_spec.name, classify.model_spec.version.value) == ("half", 5)


@pytest.mark.parametrize(
    ("request_", "code", "details"),
    [
        (regression(examples=()), "INVALID_ARGUMENT", "Input is empty."),
        (regression("none"), "INVALID_ARGUMENT", "No signature was found with the name: none"),
        (regression("classify"), "INVALID_ARGUMENT", "Expected one output Tensor."),
        (
            regression("wide"),
            "INVALID_ARGUMENT",
            "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got "
            "[2,2]",
        ),
        (
            regression("short"),
            "INVALID_ARGUMENT",
            "Input batch size did not match output batch size: 2 vs. 1",
        ),
        (
            regression("whole"),
            "INVALID_ARGUMENT",
            "Expected output Tensor of DT_FLOAT.  Got: DT_INT32",
        ),
        (regression_pb2.RegressionRequest(), "INVALID_ARGUMENT", "Missing ModelSpec"),
    ],
)
def test_errors_of_regress(prediction, request_, code, details):
    assert failure(prediction.Regress, request_) == (code, details)


@pytest.mark.parametrize(
    ("request_", "details"),
    [
        (
            classification("flat_scores"),
            "Expected Tensor shape: [batch_size num_classes] but got [2]",
        ),
        (classification("numbered"), "Expected classes Tensor of DT_STRING. Got: DT_INT64"),
        (
            classification("uneven"),
            "Tensors class and score should match in dim_size(1). Got 2 vs. 1",
        ),
    ],
)
def test_errors_of_classify(prediction, request_, details):
    assert failure(prediction.Classify, request_) == ("INVALID_ARGUMENT", details)


def test_signatures_without_the_methods_aliases(prediction):
    code, details = failure(prediction.Regress, regression("unnamed"))
    assert (code, details[:46]) == (
        "INVALID_ARGUMENT",
        "No regression outputs found in SignatureDef: i",
    )
    for signature, wrong in (
        ("unfed", "No classification inputs found in SignatureDef: "),
        ("serving_default", "Expected classification signature outputs to contain at least one of"),
    ):
        code, details = failure(prediction.Classify, classification(signature))
        assert (code, details[: len(wrong)]) == ("INVALID_ARGUMENT", wrong)


def test_examples_and_warm_ups_are_counted(server, prediction):
    def counted():
        connection = http.client.HTTPConnection(server.addresses.rest, timeout=30)
        connection.request("GET", "/monitoring/prometheus/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
        return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))

    before = ":tensorflow:serving:"
    request = tasks(("", "regress"), ("classify", "classify"))
    prediction.MultiInference(request, timeout=30)
    first = counted()
    request.input.example_list.examples.extend([example(1.0)] * 2)
    prediction.MultiInference(request, timeout=30)
    second = counted()
    for name, grown in (
        ('request_example_count_total{model="half"}', 3),
        ('request_example_counts_bucket{model="half",le="2"}', 0),
        ('request_example_counts_bucket{model="half",le="4"}', 1),
        ('request_example_counts_bucket{model="half",le="16384"}', 1),
        ('request_example_counts_count{model="half"}', 1),
    ):
        assert int(second[before + name]) - int(first[before + name]) == grown, name
    (warmed,) = (name for name in second if name.startswith(f"{before}model_warmup_latency_count"))
    assert warmed.endswith('half/5",status="OK"}') and second[warmed] == "1"


@pytest.mark.parametrize(
    ("request_", "code", "details"),
    [
        (
            tasks(("", "regress"), ("", "regress")),
            "INVALID_ARGUMENT",
            "Duplicate evaluation of signature: serving_default",
        ),
        (
            tasks(("none", "regress")),
            "INVALID_ARGUMENT",
            "Requested signature not found in model graph: none",
        ),
        (
            tasks(("", "regress"), ("elsewhere", "regress")),
            "INVALID_ARGUMENT",
            "Input tensor must be the same for all Signatures.",
        ),
        (
            tasks(("predict", "predict")),
            "UNIMPLEMENTED",
            "Unsupported signature method_name: tensorflow/serving/predict",
        ),
        (
            inference_pb2.MultiInferenceRequest(),
            "INVALID_ARGUMENT",
            "ModelSpec has no name specified.",
        ),
    ],
)
def test_errors_of_multi_inference(prediction, request_, code, details):
    assert failure(prediction.MultiInference, request_) == (code, details)


def test_all_tasks_ask_one_model(prediction):
    request = tasks(("", "regress"), ("classify", "classify"))
    request.tasks[1].model_spec.name = "other"
    assert failure(prediction.MultiInference, request) == (
        "INVALID_ARGUMENT",
        "All ModelSpecs in a MultiInferenceRequest must access the same model name.",
    )


def test_an_example_that_cannot_be_parsed_is_the_graphs_to_refuse(prediction):
    code, details = failure(prediction.Regress, regression(examples=[example(word=b"no x")]))
    assert (code, "Feature: x (data type: float) is required" in details) == (
        "INVALID_ARGUMENT",
        True,
    )


def test_regress_by_rest(post):
    assert post("regress", {"examples": [{"x": 1.0}, {"x": [0.25], "word": "a"}]}) == (
        200,
        '{\n    "results": [3.0, 1.5]\n}',
    )


def test_classify_by_rest(post):
    request = {
        "signature_name": "classify",
        "context": {"word": {"b64": "YWxs"}},
        "examples": [{"x": 1.5}, {"x": 2.0, "word": 'a"'}],
    }
    assert post("classify", request) == (
        200,
        '{\n    "results": [[["all", 1.5], ["all!", -1.5]], '
        '[["a\\"", 2.0], ["a\\"!", -2.0]]\n    ]\n}',
    )


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            {"examples": {}},
            "JSON Value: {\n    \"examples\": {}\n} Expecting 'examples' value to be an list/array",
        ),
        (
            {"examples": []},
            "JSON Value: {\n    \"examples\": []\n} 'examples' value is an empty array",
        ),
        ({"examples": [1]}, "Example must be JSON object but got JSON Number"),
        (
            {"examples": [{"x": None}]},
            "Feature: x has element with unexpected JSON type: Null",
        ),
        (
            {"examples": [{"x": [[1.0]]}]},
            "Feature: x has element with unexpected JSON type: Array",
        ),
        (
            {"examples": [{"x": [1.0, 2]}]},
            "Unexpected element type in feature: x expecting type: float",
        ),
        (
            {"examples": [{"x": [True, 2, "a"]}]},
            "Unexpected element type in feature: x expecting type: int64",
        ),
        (
            {"examples": [{"x": 1 << 63}]},
            "Feature: x has uint64 element. Only int64 is supported.",
        ),
        (
            {"examples": [{"x": 1e300}]},
            "Cannot convert JSON value: 1e+300 to float without loss of precision.",
        ),
        (
            {"signature_name": "none", "examples": [{"x": 1.0}]},
            "No signature was found with the name: none",
        ),
    ],
)
def test_errors_by_rest(post, request_, message):
    status, content = post("regress", request_)
    assert (status, json.loads(content)["error"]) == (400, message)


def test_rest_without_examples_and_of_an_unknown_model(post):
    status, content = post("regress", {"instances": []})
    assert status == 400
    assert json.loads(content)["error"].endswith(
        "When method is classify, key 'examples' is expected and was not found"
    )
    status, content = post("regress", {"examples": [{"x": 1.0}]}, model="other")
    assert status == 404
    assert json.loads(content)["error"] == "Servable not found for request: Latest(other)"
