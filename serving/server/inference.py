"""Classify, Regress and MultiInference: methods that take a list of `tensorflow.Example`."""

import abc
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf import message
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import inference_pb2, input_pb2, model_pb2

from serving.server.predict import DEFAULT_SIGNATURE
from serving.server.saved_model import Runner
from serving.server.status import ServingError, invalid_argument


class Plan(NamedTuple):
    """What a signature needs and gives, by tensor name.

    Attributes:
        feed: The tensor that takes the serialised examples.
        fetches: The tensors to compute.
    """

    feed: str
    fetches: list[str]


class ExampleMethod(abc.ABC):
    """A method over examples: which tensors it runs, and the message it makes of them.

    Attributes:
        title: The method's name in the API.
        method_name: The method's name in signatures.
        kind: What messages call a signature of it.
        field: Where its results stand in those of MultiInference.
    """

    title: ClassVar[str]
    method_name: ClassVar[str]
    kind: ClassVar[str]
    field: ClassVar[str]

    def find(self, session: Runner, name: str) -> meta_graph_pb2.SignatureDef:
        """Find a signature of this method.

        Raises:
            ServingError: If there is none of that name, or it is of another method.
        """
        if name not in session.signatures:
            raise invalid_argument(f"No signature was found with the name: {name}")
        self.check_method(session, session.signatures[name])
        return session.signatures[name]

    def check_method(self, session: Runner, signature: meta_graph_pb2.SignatureDef) -> None:
        """Refuse a signature of another method, where the session is to.

        Raises:
            ServingError: If it is one.
        """
        if session.checks_method_names and signature.method_name != self.method_name:
            raise invalid_argument(
                f"Expected {self.kind} signature method_name to be {self.method_name}. Was: "
                f"{signature.method_name}"
            )

    @abc.abstractmethod
    def plan(self, signature: meta_graph_pb2.SignatureDef) -> Plan:
        """Find the tensors of a signature.

        Raises:
            ServingError: If they are not those of the method.
        """

    @abc.abstractmethod
    def result(
        self,
        signature: meta_graph_pb2.SignatureDef,
        values: Mapping[str, np.ndarray],
        examples: int,
    ) -> message.Message:
        """Make the method's result.

        Args:
            signature: The signature.
            values: Values by tensor name, of `plan`'s fetches at least.
            examples: Number of examples in the request, [B].

        Raises:
            ServingError: If the values have another type or shape than the method's.
        """


def run_method(
    method: ExampleMethod,
    session: Runner,
    signature_name: str,
    given: input_pb2.Input,
    timeout_in_ms: int | None = None,
) -> message.Message:
    """Answer one request of one method.

    Args:
        method: The method.
        session: The loaded model.
        signature_name: Name of the signature, resolved.
        given: The examples.
        timeout_in_ms: The run is cancelled when it takes longer.

    Returns:
        `ClassificationResult` or `RegressionResult`.

    Raises:
        ServingError: If request and signature do not fit, or the run fails.
    """
    signature = method.find(session, signature_name)
    feed, fetches = method.plan(signature)
    examples = serialized_examples(given)  # [B]
    values = session.run({feed: examples}, fetches, timeout_in_ms)
    return method.result(signature, dict(zip(fetches, values, strict=True)), len(examples))


def run_tasks(
    methods: Mapping[str, ExampleMethod],
    session: Runner,
    version: int,
    request: inference_pb2.MultiInferenceRequest,
    timeout_in_ms: int | None = None,
) -> inference_pb2.MultiInferenceResponse:
    """Answer several methods from one run over the same examples.

    Args:
        methods: Methods by the name that signatures have for them.
        session: The loaded model.
        version: Its version.
        request: The tasks, and the examples.
        timeout_in_ms: The run is cancelled when it takes longer.

    Raises:
        ServingError: If the tasks do not fit each other or the model, or the run fails.
    """
    feeds, fetches = set(), set()
    seen: set[str] = set()
    for task in request.tasks:
        _check_task(task.model_spec, request.tasks[0].model_spec.name, seen, session)
        if task.method_name not in methods:
            raise ServingError(
                grpc.StatusCode.UNIMPLEMENTED,
                f"Unsupported signature method_name: {task.method_name}",
            )
        method = methods[task.method_name]
        signature = session.signatures[_signature_name(task.model_spec)]
        method.check_method(session, signature)
        plan = method.plan(signature)
        feeds.add(plan.feed)
        fetches.update(plan.fetches)
        if len(feeds) > 1:
            raise invalid_argument("Input tensor must be the same for all Signatures.")
    names = sorted(fetches)
    examples = serialized_examples(request.input)  # [B]
    values = session.run(dict.fromkeys(feeds, examples), names, timeout_in_ms)
    by_name = dict(zip(names, values, strict=True))
    response = inference_pb2.MultiInferenceResponse()
    for task in request.tasks:
        method, name = methods[task.method_name], _signature_name(task.model_spec)
        result = response.results.add()
        made = method.result(session.signatures[name], by_name, len(examples))
        getattr(result, method.field).CopyFrom(made)
        result.model_spec.name = task.model_spec.name
        result.model_spec.signature_name = name
        result.model_spec.version.value = version
    return response


def serialized_examples(given: input_pb2.Input) -> np.ndarray:
    """The examples as models read them, each after the context they share.

    Returns:
        Serialised `tensorflow.Example`s. # [B]

    Raises:
        ServingError: If there are none.
    """
    kind = given.WhichOneof("kind")
    examples = getattr(given, kind).examples if kind else []
    if not examples:
        raise invalid_argument("Input is empty.")
    context = b""
    if kind == "example_list_with_context":
        context = given.example_list_with_context.context.SerializeToString()
    # Messages that follow each other are read as one that is merged of them.
    return np.array([context + one.SerializeToString() for one in examples], dtype=object)


def type_name(array: np.ndarray) -> str:
    """The name of a type in the words of messages, `DT_FLOAT`."""
    dtype = tf.dtypes.as_dtype(array.dtype if array.dtype != object else tf.string)
    return f"DT_{dtype.name.upper()}" if dtype != tf.float32 else "DT_FLOAT"


def shape_text(array: np.ndarray) -> str:
    """A shape in the words of messages, `[2,3]`."""
    return f"[{','.join(map(str, array.shape))}]"


def _signature_name(spec: model_pb2.ModelSpec) -> str:
    return spec.signature_name or DEFAULT_SIGNATURE


def _check_task(spec: model_pb2.ModelSpec, model: str, seen: set[str], session: Runner) -> None:
    if not spec.name:
        raise invalid_argument("Found ModelSpec with an empty model name.")
    if spec.name != model:
        raise invalid_argument(
            "All ModelSpecs in a MultiInferenceRequest must access the same model name."
        )
    name = _signature_name(spec)
    if name in seen:
        raise invalid_argument(f"Duplicate evaluation of signature: {name}")
    seen.add(name)
    if name not in session.signatures:
        raise invalid_argument(f"Requested signature not found in model graph: {name}")
