"""From the JSON of a classify or regress request to examples."""

from tensorflow.core.example import example_pb2, feature_pb2
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import input_pb2

from serving.server.json_elements import is_base64, to_element
from serving.server.json_values import Json, format_error, type_name
from serving.server.status import invalid_argument

_CONTEXT = "context"
_EXAMPLES = "examples"
_INT64_MAX = (1 << 63) - 1


def read_examples(document: dict) -> input_pb2.Input:
    """Read the examples of a request, and the context they share.

    Args:
        document: The request.

    Raises:
        ServingError: If it is not such a request.
    """
    given = input_pb2.Input()
    target = given.example_list
    if _CONTEXT in document:
        target = given.example_list_with_context
        target.context.CopyFrom(_example(document[_CONTEXT]))
    if _EXAMPLES not in document:
        # The real server says classify of regress too.
        raise format_error(
            document, f"When method is classify, key '{_EXAMPLES}' is expected and was not found"
        )
    examples = document[_EXAMPLES]
    if not isinstance(examples, list):
        raise format_error(document, f"Expecting '{_EXAMPLES}' value to be an list/array")
    if not examples:
        raise format_error(document, f"'{_EXAMPLES}' value is an empty array")
    target.examples.extend(_example(one) for one in examples)
    return given


def _example(value: Json) -> example_pb2.Example:
    if not isinstance(value, dict):
        raise invalid_argument(f"Example must be JSON object but got JSON {type_name(value)}")
    example = example_pb2.Example()
    for name, content in value.items():
        feature = feature_pb2.Feature()
        for element in content if isinstance(content, list) else [content]:
            _add(element, name, feature)
        example.features.feature[name].CopyFrom(feature)
    return example


def _add(value: Json, name: str, feature: feature_pb2.Feature) -> None:
    if (
        value is None
        or isinstance(value, list)
        or (isinstance(value, dict) and not is_base64(value))
    ):
        raise invalid_argument(
            f"Feature: {name} has element with unexpected JSON type: {type_name(value)}"
        )
    if isinstance(value, str | dict):
        _check_kind(feature, "bytes_list", name)
        feature.bytes_list.value.append(to_element(value, types_pb2.DT_STRING))
    elif isinstance(value, float):
        _check_kind(feature, "float_list", name)
        feature.float_list.value.append(to_element(value, types_pb2.DT_FLOAT))
    else:
        _check_kind(feature, "int64_list", name)
        if value > _INT64_MAX:
            raise invalid_argument(f"Feature: {name} has uint64 element. Only int64 is supported.")
        feature.int64_list.value.append(int(value))


def _check_kind(feature: feature_pb2.Feature, wanted: str, name: str) -> None:
    """The first element of a feature decides what the others must be."""
    kind = feature.WhichOneof("kind")
    if kind not in (None, wanted):
        raise invalid_argument(
            f"Unexpected element type in feature: {name} expecting type: "
            f"{kind.removesuffix('_list')}"
        )
