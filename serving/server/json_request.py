"""From the JSON of a predict request to tensors.

A request has `instances`, a list with an element a row, or `inputs`, whole tensors. Inputs
take their types from the signature, their shapes from the nesting of lists.
"""

import dataclasses
import enum
import math
from collections.abc import Mapping
from typing import TypeGuard

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from serving.server.json_elements import SMALL_INTEGERS, is_base64, to_element
from serving.server.json_values import Json, format_error, quoted
from serving.server.status import ServingError, invalid_argument

TensorInfos = Mapping[str, meta_graph_pb2.TensorInfo]

_SIGNATURE = "signature_name"
_INSTANCES = "instances"
_INPUTS = "inputs"
# NumPy's own bound.
_MOST_AXES = 64


class Layout(enum.Enum):
    """How a request lays out its tensors; the response follows it."""

    ROW = _INSTANCES
    COLUMNAR = _INPUTS


@dataclasses.dataclass(frozen=True)
class PredictJson:
    """The tensors of a predict request.

    Attributes:
        layout: How they were laid out.
        inputs: Tensors by alias; strings as object arrays of bytes.
    """

    layout: Layout
    inputs: dict[str, np.ndarray]


@dataclasses.dataclass
class _Elements:
    """The elements of a tensor while its nested lists are walked."""

    dtype: int
    shape: tuple[int, ...]
    values: list = dataclasses.field(default_factory=list)


def signature_name(document: dict) -> str:
    """The signature a request asks for; empty when it leaves that to the server.

    Raises:
        ServingError: If the name is no string.
    """
    name = document.get(_SIGNATURE, "")
    if not isinstance(name, str):
        raise format_error(
            document, "not formatted correctly. 'signature_name' key must be a string value."
        )
    return name


def read_predict(document: dict, infos: TensorInfos) -> PredictJson:
    """Read the tensors of a predict request.

    Args:
        document: The request.
        infos: Inputs of the signature it asks for, by alias.

    Raises:
        ServingError: If it is not such a request, or does not fit the signature.
    """
    layout = _layout(document)
    read = _read_instances if layout is Layout.ROW else _read_inputs
    return PredictJson(layout, read(document[layout.value], infos))


def _layout(document: dict) -> Layout:
    if _INSTANCES in document and _INPUTS in document:
        raise format_error(
            document,
            f"Not formatted correctly expecting only one of '{_INPUTS}' or '{_INSTANCES}' "
            "keys to exist ",
        )
    if _INSTANCES not in document:
        if _INPUTS not in document:
            raise invalid_argument(f"Missing '{_INPUTS}' or '{_INSTANCES}' key")
        return Layout.COLUMNAR
    instances = document[_INSTANCES]
    if not isinstance(instances, list):
        # The misspelling is the real server's.
        raise format_error(document, f"Excepting '{_INSTANCES}' to be an list/array")
    if not instances:
        raise format_error(document, f"No values in '{_INSTANCES}' array")
    return Layout.ROW


def _read_instances(instances: list, infos: TensorInfos) -> dict[str, np.ndarray]:
    if not isinstance(instances[0], dict) and len(infos) > 1:
        raise invalid_argument(
            "instances is a plain list, but expecting list of objects as multiple input tensors "
            "required as per tensorinfo_map"
        )
    columns: dict[str, _Elements] = {}
    named = _is_named(instances[0])
    for index, instance in enumerate(instances):
        if named:
            _add_named(instance, index, infos, columns)
        else:
            _add_plain(instance, index, infos, columns)
    return {name: _array(column, name, (len(instances),)) for name, column in columns.items()}


def _add_named(
    instance: Json, index: int, infos: TensorInfos, columns: dict[str, _Elements]
) -> None:
    if not _is_named(instance):
        raise invalid_argument(f"Expecting object but got list at item {index} of input list")
    for name, value in instance.items():
        try:
            _add_item(value, name, infos, columns)
        except ServingError as error:
            raise invalid_argument(
                f"Failed to process element: {index} key: {name} of 'instances' list. "
                f"Error: {error}"
            ) from None
    if instance.keys() != set(infos):
        raise invalid_argument(
            f"Failed to process element: {index} of 'instances' list. JSON object: "
            f"{quoted(instance)} keys must be equal to: {','.join(sorted(infos))}"
        )


def _add_plain(
    instance: Json, index: int, infos: TensorInfos, columns: dict[str, _Elements]
) -> None:
    if _is_named(instance):
        raise invalid_argument(f"Expecting value/list but got object at item {index} of input list")
    try:
        _add_item(instance, next(iter(infos)), infos, columns)
    except ServingError as error:
        raise invalid_argument(
            f"Failed to process element: {index} of 'instances' list. Error: {error}"
        ) from None


def _add_item(item: Json, name: str, infos: TensorInfos, columns: dict[str, _Elements]) -> None:
    """Append one row to a column; all rows of a column have one shape."""
    if name not in infos:
        raise invalid_argument(f"JSON object: does not have named input: {name}")
    row = _read_tensor(item, infos[name].dtype)
    column = columns.setdefault(name, _Elements(row.dtype, row.shape))
    size = math.prod(column.shape)
    if len(row.values) != size:
        raise invalid_argument(f"Expecting tensor size: {size} but got: {len(row.values)}")
    if row.shape != column.shape:
        raise invalid_argument(
            f"Expecting shape {_brackets(column.shape)} but got: {_brackets(row.shape)}"
        )
    column.values.extend(row.values)


def _read_inputs(value: Json, infos: TensorInfos) -> dict[str, np.ndarray]:
    if not _is_named(value):
        if len(infos) > 1:
            raise invalid_argument(
                "inputs is a plain value/list, but expecting an object as multiple input tensors "
                "required as per tensorinfo_map"
            )
        value = {next(iter(infos)): value}
    tensors = {}
    for name, info in infos.items():
        if name not in value:
            raise invalid_argument(f"Missing named input: {name} in 'inputs' object.")
        elements = _read_tensor(value[name], info.dtype)
        tensors[name] = _array(elements, name)
    return tensors


def _read_tensor(value: Json, dtype: int) -> _Elements:
    elements = _Elements(dtype, _shape(value))
    _fill(value, 0, elements)
    return elements


def _shape(value: Json) -> tuple[int, ...]:
    """The shape that the first elements, all the way down, lay claim to."""
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    return tuple(shape)


def _fill(value: Json, level: int, elements: _Elements) -> None:
    rank = len(elements.shape)
    if not isinstance(value, list):
        if level != rank:
            raise invalid_argument(
                f"JSON Value: {quoted(value)} found at incorrect level: {level + 1} in the JSON "
                f"DOM. Expected at level: {rank}"
            )
        elements.values.append(to_element(value, elements.dtype))
        return
    if level >= rank:
        raise invalid_argument(f"Encountered list at unexpected level: {level} expected < {rank}")
    if len(value) != elements.shape[level]:
        raise invalid_argument(
            f"Encountered list at unexpected size: {len(value)} at level: {level} "
            f"expected size: {elements.shape[level]}"
        )
    for item in value:
        _fill(item, level + 1, elements)


def _array(elements: _Elements, name: str, rows: tuple[int, ...] = ()) -> np.ndarray:
    shape = rows + elements.shape
    if len(shape) > _MOST_AXES:
        raise invalid_argument(f"tensor parsing error: {name}")
    dtype = tf.dtypes.as_dtype(elements.dtype).as_numpy_dtype
    if elements.dtype in SMALL_INTEGERS:
        # Small integers wrap around, as they do on the wire.
        return np.array(elements.values, dtype=np.int32).astype(dtype).reshape(shape)
    return np.array(elements.values, dtype=dtype).reshape(shape)


def _is_named(value: Json) -> TypeGuard[dict]:
    return isinstance(value, dict) and not is_base64(value)


def _brackets(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"
