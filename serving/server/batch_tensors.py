"""The tensors of several requests as those of one, and their answers apart again."""

from collections.abc import Iterator, Mapping, Sequence

import grpc
import numpy as np

from serving.server.status import ServingError, invalid_argument


def rows_of(feeds: Mapping[str, np.ndarray]) -> int:
    """The number of rows of a request.

    Raises:
        ServingError: If its tensors have none, or not the same.
    """
    if any(array.ndim == 0 for array in feeds.values()):
        raise invalid_argument(
            "Batching session Run() input tensors must have at least one dimension."
        )
    sizes = {array.shape[0] for array in feeds.values()}
    if len(sizes) != 1:
        raise invalid_argument(
            "Batching session Run() input tensors must have equal 0th-dimension size."
        )
    return sizes.pop()


def parts_of(
    feeds: Mapping[str, np.ndarray], rows: int, most: int
) -> Iterator[dict[str, np.ndarray]]:
    """A request in parts of `most` rows, the last of what is left; one without rows is one part."""
    for start in range(0, max(rows, 1), most):
        yield {name: array[start : start + most] for name, array in feeds.items()}


def merged(name: str, arrays: Sequence[np.ndarray], fill: int, pad: bool) -> np.ndarray:
    """One input of several requests, one below the other.

    Args:
        name: Name of the tensor.
        arrays: Its values, [B_i, ...] each.
        fill: Rows to add: those of the first request again.
        pad: Whether other axes may differ, and are brought to the longest.

    Returns:
        The values, [sum of B_i + fill, ...].

    Raises:
        ServingError: If the shapes do not fit each other.
    """
    if len({array.shape[1:] for array in arrays}) > 1:
        if not pad:
            raise invalid_argument(
                f"Tensors with name '{name}' from different tasks have different shapes and "
                "padding is turned off. Set pad_variable_length_inputs to true, or ensure that all "
                "tensors with the same name have equal dimensions starting with the first dim."
            )
        arrays = _padded(name, arrays)
    # A row that the model has to answer anyway cannot fail by being there again.
    return np.concatenate([*arrays, *[arrays[0][:1]] * fill])


def check_output(value: np.ndarray, rows: int) -> None:
    """See that an output has a row for each of the batch.

    Raises:
        ServingError: If it has not.
    """
    if value.ndim == 0:
        raise ServingError(
            grpc.StatusCode.FAILED_PRECONDITION, "Batched output tensor has 0 dimensions"
        )
    if value.shape[0] != rows:
        raise ServingError(
            grpc.StatusCode.FAILED_PRECONDITION,
            "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension "
            "sizes of the input tensors",
        )


def _padded(name: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Arrays of one shape but for their rows; each is padded with its own first element, as there.

    Raises:
        ServingError: If they differ in the number of axes, or one has no element to pad with.
    """
    if len({array.ndim for array in arrays}) > 1:
        raise invalid_argument(
            f"Tensors with name '{name}' from different tasks have different numbers of dimensions"
        )
    longest = np.max([array.shape[1:] for array in arrays], axis=0)
    padded = []
    for array in arrays:
        after = [0, *(longest - array.shape[1:])]
        if any(after) and not array.size:
            raise invalid_argument("Got empty tensor in batch of non-empty tensors.")
        full = np.full(
            [length + more for length, more in zip(array.shape, after, strict=True)],
            array.flat[0] if array.size else None,
            array.dtype,
        )
        full[tuple(slice(length) for length in array.shape)] = array
        padded.append(full)
    return padded
