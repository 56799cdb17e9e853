"""The gRPC API over real sockets, asked through the published stubs."""

import threading

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)


@pytest.fixture(scope="module")
def channel(tiny_server):
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(tiny_server.addresses.grpc, options) as channel:
        yield channel


@pytest.fixture(scope="module")
def prediction(channel):
    return prediction_service_pb2_grpc.PredictionServiceStub(channel)


def predict_request(texts, name="translation", signature="", alias="text"):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    request.model_spec.signature_name = signature
    tensor = request.inputs[alias]
    tensor.dtype = types_pb2.DT_STRING
    tensor.tensor_shape.dim.add().size = len(texts)
    tensor.string_val.extend(texts)
    return request


def failure(call, *arguments, **options):
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, **options)
    return caught.value.code().name, caught.value.details()


def test_predict_answers_in_typed_fields(prediction):
    response = prediction.Predict(predict_request([b"guten", "grün".encode()]), timeout=30)
    translation, score = response.outputs["translation"], response.outputs["score"]
    assert list(translation.string_val) == [b"GUTEN", "GRüN".encode()]
    assert translation.dtype == types_pb2.DT_STRING
    assert [dim.size for dim in translation.tensor_shape.dim] == [2]
    assert list(score.float_val) == pytest.approx([-5 / 3, -5 / 3])
    assert not translation.tensor_content and not score.tensor_content


def test_predict_tells_what_answered(prediction):
    spec = prediction.Predict(predict_request([b"a"]), timeout=30).model_spec
    assert (spec.name, spec.signature_name, spec.version.value) == (
        "translation",
        "serving_default",
        3,
    )


def test_predict_of_a_version_and_a_signature(prediction):
    request = predict_request([b"a b"], signature="nbest")
    request.model_spec.version.value = 3
    response = prediction.Predict(request, timeout=30)
    assert response.model_spec.signature_name == "nbest"
    assert list(response.outputs["translations"].string_val) == [b"A B", b"a b"]
    assert [dim.size for dim in response.outputs["scores"].tensor_shape.dim] == [1, 2]


def test_output_filter_leaves_the_rest_out(prediction):
    request = predict_request([b"a"])
    request.output_filter.append("score")
    assert list(prediction.Predict(request, timeout=30).outputs) == ["score"]


def test_every_type_has_its_field(prediction):
    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "translation", "echo"
    fields = {
        "number": (types_pb2.DT_FLOAT, "float_val", [1.5, -2.0]),
        "flag": (types_pb2.DT_BOOL, "bool_val", [True, False]),
        "count": (types_pb2.DT_INT64, "int64_val", [1 << 40, -1]),
        "data": (types_pb2.DT_STRING, "string_val", [b"\xff", b""]),
    }
    for alias, (dtype, field, values) in fields.items():
        request.inputs[alias].dtype = dtype
        request.inputs[alias].tensor_shape.dim.add().size = 2
        getattr(request.inputs[alias], field).extend(values)
    outputs = prediction.Predict(request, timeout=60).outputs
    for alias, (dtype, field, values) in fields.items():
        found = outputs["data_bytes" if alias == "data" else alias]
        assert (found.dtype, list(getattr(found, field))) == (dtype, values)
        assert not found.tensor_content


def test_fewer_elements_than_the_shape_repeat_the_last(prediction):
    request = predict_request([b"a", b"b"])
    request.inputs["text"].tensor_shape.dim[0].size = 4
    response = prediction.Predict(request, timeout=30)
    assert list(response.outputs["translation"].string_val) == [b"A", b"B", b"B", b"B"]


@pytest.mark.parametrize(
    ("change", "code", "details"),
    [
        (
            lambda request: request.model_spec.ClearField("name"),
            "INVALID_ARGUMENT",
            "ModelSpec has no name specified.",
        ),
        (
            lambda request: request.ClearField("model_spec"),
            "INVALID_ARGUMENT",
            "Missing ModelSpec",
        ),
        (
            lambda request: setattr(request.model_spec, "name", "other"),
            "NOT_FOUND",
            "Servable not found for request: Latest(other)",
        ),
        (
            lambda request: setattr(request.model_spec.version, "value", 9),
            "NOT_FOUND",
            "Servable not found for request: Specific(translation, 9)",
        ),
        (
            lambda request: setattr(request.model_spec, "version_label", "stable"),
            "INVALID_ARGUMENT",
            "Unrecognized servable version label: stable",
        ),
        (
            lambda request: setattr(request.model_spec, "signature_name", "none"),
            "FAILED_PRECONDITION",
            'Serving signature key "none" not found.',
        ),
        (
            lambda request: request.inputs.clear(),
            "INVALID_ARGUMENT",
            "input size does not match signature: 0!=1 len({}) != len({text}). "
            "Sent extra: {}. Missing but required: {text}.",
        ),
        (
            lambda request: request.inputs["more"].CopyFrom(request.inputs["text"]),
            "INVALID_ARGUMENT",
            "input size does not match signature: 2!=1 len({more,text}) != len({text}). "
            "Sent extra: {more}. Missing but required: {}.",
        ),
        (
            lambda request: request.output_filter.append("word"),
            "INVALID_ARGUMENT",
            "output tensor alias not found in signature: word Outputs expected to be in the set "
            "{score,translation}.",
        ),
        (
            lambda request: request.output_filter.extend(["score", "score"]),
            "INVALID_ARGUMENT",
            "duplicate output tensor alias: score",
        ),
        (
            lambda request: setattr(request.inputs["text"], "dtype", types_pb2.DT_INVALID),
            "INVALID_ARGUMENT",
            "tensor parsing error: text",
        ),
    ],
)
def test_errors_have_the_real_servers_code_and_words(prediction, change, code, details):
    request = predict_request([b"a"])
    change(request)
    assert failure(prediction.Predict, request, timeout=30) == (code, details)


def test_an_input_of_another_name_is_refused(prediction):
    code, details = failure(prediction.Predict, predict_request([b"a"], alias="words"), timeout=30)
    assert code == "INVALID_ARGUMENT"
    assert "Signature input alias: text(feed name: serving_default_text:0) not found" in details


def test_a_wrong_type_is_the_executors_to_refuse(prediction):
    request = predict_request([])
    request.inputs["text"].dtype = types_pb2.DT_FLOAT
    request.inputs["text"].tensor_shape.dim[0].size = 1
    request.inputs["text"].float_val.append(1.0)
    assert failure(prediction.Predict, request, timeout=30) == (
        "INVALID_ARGUMENT",
        "Expects arg[0] to be string but float is provided",
    )


def test_long_messages_are_cut(prediction):
    request = predict_request([b"a"])
    request.model_spec.signature_name = "é" * 3000
    _, details = failure(prediction.Predict, request, timeout=30)
    assert details.startswith('Serving signature key "éé')
    assert details.endswith("...TRUNCATED")
    assert 1020 <= len(details.removesuffix("...TRUNCATED").encode()) <= 1024


def test_a_deadline_stops_the_graph(prediction, tiny_server):
    code, _ = failure(prediction.Predict, predict_request([b"wait:600"]), timeout=0.3)
    assert code == "DEADLINE_EXCEEDED"
    versions = tiny_server._manager.get("translation")
    model = versions._versions[3]
    # The request would hold the version for ten minutes if its run had not been stopped.
    with versions._changed:
        assert versions._changed.wait_for(lambda: model.in_flight == 0, 100)


def test_a_quick_request_overtakes_a_slow_one(prediction):
    slow = prediction.Predict.future(predict_request([b"wait:600"]), timeout=4)
    quick = prediction.Predict(predict_request([b"quick"]), timeout=50)
    assert list(quick.outputs["translation"].string_val) == [b"QUICK"]
    assert not slow.done()


def test_many_callers_get_their_own_answers(prediction):
    answers = {}

    def ask(number):
        texts = [f"text {number} {index}".encode() for index in range(number % 7 + 1)]
        response = prediction.Predict(predict_request(texts), timeout=60)
        answers[number] = texts, list(response.outputs["translation"].string_val)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 64
    assert all([text.upper() for text in texts] == got for texts, got in answers.values())


def test_messages_beyond_four_megabytes_pass(prediction):
    text = b"x" * (9 << 20)
    response = prediction.Predict(predict_request([text]), timeout=60)
    assert response.outputs["translation"].string_val[0] == text.upper()


def test_metadata_holds_the_signatures(prediction):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = "translation"
    response = prediction.GetModelMetadata(request, timeout=30)
    assert (response.model_spec.name, response.model_spec.version.value) == ("translation", 3)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures)
    default = signatures.signature_def["serving_default"]
    assert default.inputs["text"].dtype == types_pb2.DT_STRING
    assert default.method_name == "tensorflow/serving/predict"
    assert {"serving_default", "nbest", "align", "score"} <= set(signatures.signature_def)


@pytest.mark.parametrize(
    ("fields", "details"),
    [
        ([], "GetModelMetadataRequest must specify at least one metadata_field"),
        (["other"], "Metadata field %s is not supportedother"),
    ],
)
def test_only_signatures_are_known_metadata(prediction, fields, details):
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=fields)
    request.model_spec.name = "translation"
    assert failure(prediction.GetModelMetadata, request, timeout=30) == (
        "INVALID_ARGUMENT",
        details,
    )


def test_status_of_all_versions_and_of_one(channel):
    stub = model_service_pb2_grpc.ModelServiceStub(channel)
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "translation"
    (status,) = stub.GetModelStatus(request, timeout=30).model_version_status
    assert status.version == 3
    assert status.state == get_model_status_pb2.ModelVersionStatus.AVAILABLE
    assert (status.status.error_code, status.status.error_message) == (0, "")
    request.model_spec.version.value = 4
    assert failure(stub.GetModelStatus, request, timeout=30) == (
        "NOT_FOUND",
        "Could not find version 4 of model translation",
    )
    request.model_spec.name = "other"
    request.model_spec.ClearField("version")
    assert failure(stub.GetModelStatus, request, timeout=30) == (
        "NOT_FOUND",
        "Could not find any versions of model other",
    )
    request.model_spec.name = ""
    assert failure(stub.GetModelStatus, request, timeout=30) == (
        "NOT_FOUND",
        "Could not find any versions of model ",
    )


def test_health(channel):
    stub = health_pb2_grpc.HealthStub(channel)
    for service in ("", "tensorflow.serving.PredictionService"):
        response = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=30)
        assert response.status == health_pb2.HealthCheckResponse.SERVING


def test_reflection_lists_the_services(channel):
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    (response,) = stub.ServerReflectionInfo(iter([request]), timeout=30)
    names = {service.name for service in response.list_services_response.service}
    assert {"tensorflow.serving.PredictionService", "tensorflow.serving.ModelService"} <= names


def test_bytes_that_are_no_message_are_refused(channel):
    call = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
    code, _ = failure(call, b"\xff\xff\xff\xff garbage", timeout=30)
    assert code == "INTERNAL"
