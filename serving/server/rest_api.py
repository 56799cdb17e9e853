"""The REST API, free of any web server: a method, a path and a body in, an answer out."""

import logging
import re
import time
import urllib.parse
import zlib
from collections.abc import Mapping
from typing import Any

import grpc
from google.protobuf import json_format, message
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, model_pb2

from serving.server import cors
from serving.server.example_methods import CLASSIFY, REGRESS
from serving.server.inference import ExampleMethod, run_method
from serving.server.json_examples import read_examples
from serving.server.json_request import read_predict, signature_name
from serving.server.json_response import (
    write_classification,
    write_error,
    write_predict,
    write_regression,
)
from serving.server.json_values import parse_object
from serving.server.measured import measured
from serving.server.metrics import Metrics
from serving.server.models import Models
from serving.server.predict import DEFAULT_SIGNATURE, predict
from serving.server.reply import HTML, PLAIN, Reply
from serving.server.request_target import path_and_query
from serving.server.saved_model import Runner
from serving.server.status import ServingError, invalid_argument

_log = logging.getLogger("seqloom.serving")

# Both are matched against path and query together: a request with a query is malformed.
_VERSION = r"(?:/versions/(?P<version>[0-9]+)|/labels/(?P<label>[^/:]+))?"
_PREDICTION = re.compile(
    rf"/v1/models/(?P<name>[^/:]+){_VERSION}:(?P<method>classify|regress|predict)", re.IGNORECASE
)
_MODEL = re.compile(
    rf"/v1/models(?:/(?P<name>[^/:]+))?{_VERSION}(?:/(?P<part>metadata))?", re.IGNORECASE
)
_OURS = re.compile(r"/v1/.*", re.IGNORECASE)
_METHODS = ("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH")
_LARGEST_VERSION = (1 << 63) - 1
_REASONS = {
    400: "Bad Request",
    404: "Not Found",
    408: "Request Timeout",
    413: "Request Entity Too Large",
    501: "Not Implemented",
}


class RestApi:
    """Answers requests for the models; may be called from many threads at once."""

    def __init__(
        self,
        models: Models,
        timeout_in_ms: int,
        metrics: Metrics,
        metrics_path: str | None = None,
        cross_origin: bool = False,
    ):
        """Answer for these models.

        Args:
            models: What is served.
            timeout_in_ms: A model that runs longer is stopped, and the answer is a 504.
            metrics: Counts the requests.
            metrics_path: Path of the page that tells them; None for no page.
            cross_origin: Whether pages of other sites may ask.
        """
        self._models = models
        self._metrics = metrics
        self._metrics_path = metrics_path
        self._timeout_in_ms = timeout_in_ms
        self._cross_origin = cross_origin

    def answer(self, method: str, target: str, body: bytes, origin: str = "") -> Reply:
        """Answer one request.

        Args:
            method: The HTTP method.
            target: Path, and query where there is one, as the request line had them.
            body: The body, unpacked.
            origin: The site whose page asks, where a browser tells it.
        """
        if method not in _METHODS:
            return error_page(501)
        asked = path_and_query(target)
        if asked is None:
            return error_page(400)
        if self._metrics_path is not None and asked.partition("?")[0] == self._metrics_path:
            return self._page_of_metrics(asked)
        if not _OURS.fullmatch(asked):
            return error_page(404)
        if method == "OPTIONS":
            reply = self._preflight(origin)
        else:
            reply = self._answer(method, asked, body)
        return cors.allowed(reply) if self._cross_origin else reply

    def _page_of_metrics(self, target: str) -> Reply:
        if target != self._metrics_path:
            told = f"Unexpected path: {target}. Should be {self._metrics_path}"
            return Reply(400, told.encode(), PLAIN)
        return Reply(200, self._metrics.page(), PLAIN)

    def _preflight(self, origin: str) -> Reply:
        started = time.monotonic()
        status, reply = cors.preflight(origin)
        self._metrics.record("", "", "REST", status.name, started)
        return reply

    def _answer(self, method: str, target: str, body: bytes) -> Reply:
        pattern = {"POST": _PREDICTION, "GET": _MODEL}.get(method)
        match = pattern.fullmatch(target) if pattern else None
        started, status = time.monotonic(), grpc.StatusCode.OK
        try:
            if match is None:
                raise invalid_argument(f"Malformed request: {method} {target}")
            if int(match["version"] or 0) > _LARGEST_VERSION:
                # The real server sends this one error without a body.
                status = grpc.StatusCode.INVALID_ARGUMENT
                return Reply(400, b"")
            if method == "POST":
                return Reply(200, self._run(match, body, method, target))
            return Reply(200, self._describe(match))
        except ServingError as error:
            status = error.code
            return Reply(error.http_status, write_error(error.message))
        except Exception as error:
            status = grpc.StatusCode.INTERNAL
            _log.exception("%s %s failed", method, target)
            return Reply(500, write_error(f"{type(error).__name__}: {error}"))
        finally:
            # All are counted, those that name no model or no method by empty names.
            found = match.groupdict(default="") if match else {}
            name, api = _decoded(found.get("name", "")), found.get("method", "")
            self._metrics.record(name, api, "REST", status.name, started)

    def _run(self, match: re.Match, body: bytes, method: str, target: str) -> bytes:
        # The path is matched without regard to case, the name of the method is not.
        if match["method"] == "classify":
            return write_classification(self._infer(CLASSIFY, match, body))
        if match["method"] == "regress":
            return write_regression(self._infer(REGRESS, match, body))
        if match["method"] != "predict":
            raise invalid_argument(f"Malformed request: {method} {target}")
        return self._predict(match, body)

    def _infer(self, method: ExampleMethod, match: re.Match, body: bytes) -> Any:
        document = parse_object(body)
        name = signature_name(document) or DEFAULT_SIGNATURE
        given = read_examples(document)
        spec = _model_spec(match)
        with self._models.acquire(spec) as version:
            session = measured(version, self._metrics, spec.name, method.title)
            return run_method(method, session, name, given, self._timeout_in_ms)

    def _predict(self, match: re.Match, body: bytes) -> bytes:
        document = parse_object(body)
        name = signature_name(document)
        # One version answers the whole request, though a newer one may arrive meanwhile.
        spec = _model_spec(match)
        with self._models.acquire(spec) as version:
            request = read_predict(document, _inputs(version.session, name))
            outputs = predict(
                measured(version, self._metrics, spec.name, "Predict"),
                name or DEFAULT_SIGNATURE,
                request.inputs,
                lambda array: array,
                timeout_in_ms=self._timeout_in_ms,
            )
        return write_predict(outputs, request.layout)

    def _describe(self, match: re.Match) -> bytes:
        if not match["name"]:
            raise invalid_argument("Missing model name in request.")
        spec = _model_spec(match)
        if match["part"] != "metadata":
            return _proto_json(self._models.status(spec))
        request = get_model_metadata_pb2.GetModelMetadataRequest(
            model_spec=spec, metadata_field=["signature_def"]
        )
        return _metadata_json(self._models.metadata(request))


def unpack(body: bytes, limit: int) -> bytes:
    """Unpack a gzip body.

    Args:
        body: The packed bytes.
        limit: Most bytes to unpack.

    Returns:
        The bytes; none, as in the real server, if they are not gzip, cut off or too many.
    """
    unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        unpacked = unpacker.decompress(body, limit)
    except zlib.error:
        return b""
    return unpacked if unpacker.eof else b""


def error_page(status: int) -> Reply:
    """The page that the real server's web server sends of itself."""
    reason = _REASONS[status]
    page = (
        f"<HTML><HEAD>\n<TITLE>{status} {reason}</TITLE>\n</HEAD><BODY>\n"
        f"<H1>{reason}</H1>\n</BODY></HTML>\n"
    )
    return Reply(status, page.encode(), HTML)


def _model_spec(match: re.Match) -> model_pb2.ModelSpec:
    spec = model_pb2.ModelSpec(name=_decoded(match["name"]))
    if match["version"]:
        spec.version.value = int(match["version"])
    if match["label"]:
        spec.version_label = _decoded(match["label"])
    return spec


def _decoded(text: str) -> str:
    return urllib.parse.unquote(text, errors="replace")


def _proto_json(proto: message.Message) -> bytes:
    text = json_format.MessageToJson(
        proto,
        indent=1,
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
        ensure_ascii=False,
    )
    return text.encode("utf-8") + b"\n"


def _metadata_json(response: get_model_metadata_pb2.GetModelMetadataResponse) -> bytes:
    signatures = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(signatures)
    return (
        b'{\n"model_spec":'
        + _proto_json(response.model_spec)
        + b',\n"metadata": {"signature_def": '
        + _proto_json(signatures)
        + b"}\n}\n"
    )


def _inputs(session: Runner, signature_name: str) -> Mapping[str, meta_graph_pb2.TensorInfo]:
    name = signature_name or DEFAULT_SIGNATURE
    if name not in session.signatures:
        raise invalid_argument(f'Serving signature name: "{name}" not found in signature def')
    inputs = session.signatures[name].inputs
    if not inputs:
        raise invalid_argument(
            f"Failed to get input map for signature: {signature_name or 'DEFAULT'}"
        )
    return inputs
