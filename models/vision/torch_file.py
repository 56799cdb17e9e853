"""Arrays of a PyTorch file of the form before version 1.6, read without PyTorch.

Five pickles follow each other: a magic number, a version, facts of the machine, the object, and
the keys of its storages; then each storage, its length in elements as int64 before it.
"""

import collections
import io
import math
import pickle
import struct
from typing import Any, NamedTuple

import numpy as np

from models.errors import UserError

_MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001
_TYPES = {"FloatStorage": "<f4", "LongStorage": "<i8"}


class _Storage(NamedTuple):
    key: str
    dtype: np.dtype
    size: int


class _Tensor(NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _rebuild(storage: Any, offset: int, shape: Any, strides: Any, *_: Any) -> _Tensor:
    return _Tensor(storage, offset, shape, strides)


class _Unpickler(pickle.Unpickler):
    """Makes nothing but tensors, ordered dictionaries and plain values.

    A pickle may name any function of Python and have it called; here it gets only those below.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild
        if module == "torch" and name in _TYPES:
            return np.dtype(_TYPES[name])
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no weights need")

    def persistent_load(self, pid: Any) -> _Storage:
        kind, dtype, key, _, size, *_ = pid
        if kind != "storage" or not isinstance(dtype, np.dtype):
            raise pickle.UnpicklingError(f"it refers to {kind!r} where a storage was expected")
        return _Storage(key, dtype, size)


def read_state(content: bytes, name: str) -> dict[str, np.ndarray]:
    """The arrays of a state dictionary.

    Nothing that the file asks for is called but what makes arrays of it.

    Args:
        content: Of the file.
        name: Of the file, for messages.

    Raises:
        UserError: If it is torn, of another form, or asks for anything else.
    """
    file = io.BytesIO(content)
    try:
        head = [_Unpickler(file).load() for _ in range(3)]
        if head[:2] != [_MAGIC, _VERSION]:
            raise ValueError("it does not begin as PyTorch files before version 1.6 do")
        state, keys = _Unpickler(file).load(), _Unpickler(file).load()
        tensors = {key: each for key, each in state.items() if isinstance(each, _Tensor)}
        dtypes = {each.storage.key: each.storage.dtype for each in tensors.values()}
        storages = {key: _read_storage(file, dtypes[key]) for key in keys}
        return {key: _array(each, storages) for key, each in tensors.items()}
    # A pickle of any content may break the unpickler in many ways.
    except (pickle.UnpicklingError, ArithmeticError, LookupError, OSError, EOFError) as error:
        raise _refusal(name, error) from None
    except (ValueError, TypeError, AttributeError, struct.error) as error:
        raise _refusal(name, error) from None


def _refusal(name: str, error: Exception) -> UserError:
    return UserError(f"{name}: not read as weights: {error}; get the file again from its source")


def _read_storage(file: io.BytesIO, dtype: np.dtype) -> np.ndarray:
    (size,) = struct.unpack("<q", file.read(8))
    content = file.read(max(size, 0) * dtype.itemsize)
    if len(content) != size * dtype.itemsize:
        raise ValueError(f"a storage of {size} elements ends after {len(content)} bytes")
    return np.frombuffer(content, dtype)


def _array(tensor: _Tensor, storages: dict[str, np.ndarray]) -> np.ndarray:
    """The array [shape] whose element i stands at offset + i · strides of its storage."""
    flat = storages[tensor.storage.key]
    if math.prod(tensor.shape) > flat.size:
        raise ValueError(f"a tensor of shape {tensor.shape} has a storage of {flat.size}")
    places = np.full(tensor.shape, tensor.offset)
    for axis, stride in enumerate(tensor.strides):
        steps = np.arange(tensor.shape[axis]) * stride
        places = places + steps.reshape([-1] + [1] * (len(tensor.shape) - axis - 1))
    if places.size and not 0 <= places.min() <= places.max() < flat.size:
        raise ValueError(f"a tensor of shape {tensor.shape} reaches out of its storage")
    return flat[places]
