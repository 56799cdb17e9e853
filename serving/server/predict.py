"""Runs one signature of one loaded model: what gRPC, REST and warm-up share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import grpc
import numpy as np
from tensorflow.core.protobuf import meta_graph_pb2

from serving.server.saved_model import Runner
from serving.server.status import ServingError, invalid_argument
from serving.server.tensors import to_array

DEFAULT_SIGNATURE = "serving_default"
_SERVED_METHODS = tuple(f"tensorflow/serving/{kind}" for kind in ("predict", "classify", "regress"))

Value = TypeVar("Value")


def predict(
    session: Runner,
    signature_name: str,
    inputs: Mapping[str, Value],
    to_tensor: Callable[[Value], np.ndarray],
    output_filter: Sequence[str] = (),
    timeout_in_ms: int | None = None,
) -> dict[str, np.ndarray]:
    """Compute the outputs of a signature.

    Args:
        session: The loaded model.
        signature_name: Name of the signature, resolved.
        inputs: Inputs by alias, in whatever form the request had.
        to_tensor: Turns an input into an array; raises ValueError when it cannot.
        output_filter: Aliases of the outputs wanted; empty for all.
        timeout_in_ms: The run is cancelled when it takes longer.

    Returns:
        Outputs by alias.

    Raises:
        ServingError: If the request does not fit the signature, or the run fails.
    """
    signature = _find(session, signature_name)
    _check_number_of_inputs(signature, inputs)
    feeds = _feeds(signature, inputs, to_tensor)
    aliases = _outputs(signature, output_filter)
    names = [signature.outputs[alias].name for alias in aliases]
    return dict(zip(aliases, session.run(feeds, names, timeout_in_ms), strict=True))


def _find(session: Runner, name: str) -> meta_graph_pb2.SignatureDef:
    if name not in session.signatures:
        raise ServingError(
            grpc.StatusCode.FAILED_PRECONDITION, f'Serving signature key "{name}" not found.'
        )
    signature = session.signatures[name]
    if session.checks_method_names and signature.method_name not in _SERVED_METHODS:
        raise ServingError(
            grpc.StatusCode.INTERNAL,
            "Expected prediction signature method_name to be one of {"
            f"{', '.join(_SERVED_METHODS)}}}. Was: {signature.method_name}",
        )
    return signature


def _check_number_of_inputs(
    signature: meta_graph_pb2.SignatureDef, inputs: Mapping[str, object]
) -> None:
    expected, given = set(signature.inputs), set(inputs)
    too_few = len(given) < len(expected) and not signature.defaults
    if len(given) > len(expected) or too_few:
        raise invalid_argument(
            f"input size does not match signature: {len(given)}!={len(expected)} "
            f"len({{{_listed(given)}}}) != len({{{_listed(expected)}}}). "
            f"Sent extra: {{{_listed(given - expected)}}}. "
            f"Missing but required: {{{_listed(expected - given)}}}."
        )


def _feeds(
    signature: meta_graph_pb2.SignatureDef,
    inputs: Mapping[str, Value],
    to_tensor: Callable[[Value], np.ndarray],
) -> dict[str, np.ndarray]:
    feeds = {}
    for alias, info in signature.inputs.items():
        try:
            if alias in inputs:
                feeds[info.name] = to_tensor(inputs[alias])
            elif alias in signature.defaults:
                feeds[info.name] = to_array(signature.defaults[alias])
            else:
                raise invalid_argument(_missing(alias, info.name, inputs, signature.defaults))
        except ValueError:
            raise invalid_argument(f"tensor parsing error: {alias}") from None
    unknown = set(inputs) - set(signature.inputs)
    if unknown:
        raise invalid_argument(
            "Inputs contains invalid name. Used request inputs: "
            f"{_listed(set(inputs) - unknown)}, request input: {_listed(inputs)}"
        )
    return feeds


def _missing(alias: str, feed_name: str, inputs: Iterable[str], defaults: Iterable[str]) -> str:
    return (
        f"Signature input alias: {alias}(feed name: {feed_name}) not found in request and no "
        f"default value provided. Inputs expected to be in the request {{{_listed(inputs)}}}, "
        f"or default input alias set: {_listed(defaults)}"
    )


def _outputs(signature: meta_graph_pb2.SignatureDef, output_filter: Sequence[str]) -> list[str]:
    seen = set()
    for alias in output_filter:
        if alias not in signature.outputs:
            raise invalid_argument(
                f"output tensor alias not found in signature: {alias} Outputs expected to be in "
                f"the set {{{_listed(signature.outputs)}}}."
            )
        if alias in seen:
            raise invalid_argument(f"duplicate output tensor alias: {alias}")
        seen.add(alias)
    return list(output_filter) or sorted(signature.outputs)


def _listed(names: Iterable[str]) -> str:
    return ",".join(sorted(names))
