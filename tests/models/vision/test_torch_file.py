"""Old files of PyTorch, written here by hand, and hostile ones."""

import collections
import pickle
import struct

import numpy as np
import pytest

from models.errors import UserError
from models.vision.torch_file import read_state

MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001


class Named:
    """Pickles as a name that only PyTorch has."""

    def __init__(self, module, name):
        self.module, self.name = module, name


class Storage:
    def __init__(self, kind, key, size):
        self.identity = ("storage", Named("torch", kind), key, "cpu", size, None)


class Tensor:
    def __init__(self, storage, offset, shape, strides):
        self.arguments = (storage, offset, shape, strides, False, collections.OrderedDict())


class Writer(pickle._Pickler):
    def persistent_id(self, obj):
        return obj.identity if isinstance(obj, Storage) else None

    def save(self, obj, save_persistent_id=True):
        if isinstance(obj, Named):
            self.write(b"c" + f"{obj.module}\n{obj.name}\n".encode())
        elif isinstance(obj, Tensor):
            self.save(Named("torch._utils", "_rebuild_tensor_v2"))
            self.save(obj.arguments)
            self.write(pickle.REDUCE)
        else:
            super().save(obj, save_persistent_id)


def file_of(state, storages, tmp_path):
    path = tmp_path / "old.pth"
    with open(path, "wb") as file:
        for each in (MAGIC, VERSION, {"little_endian": True}, state, list(storages)):
            Writer(file, protocol=2).dump(each)
        for array in storages.values():
            file.write(struct.pack("<q", array.size) + array.tobytes())
    return path.read_bytes()


def test_tensors_are_read_by_offset_and_strides(tmp_path):
    floats = np.arange(10, dtype=np.float32)
    state = collections.OrderedDict(
        rows=Tensor(Storage("FloatStorage", "1", 10), 0, (2, 3), (3, 1)),
        columns=Tensor(Storage("FloatStorage", "1", 10), 1, (2, 3), (1, 2)),
        count=Tensor(Storage("LongStorage", "0", 1), 0, (), ()),
    )
    storages = {"0": np.array([7], np.int64), "1": floats}
    found = read_state(file_of(state, storages, tmp_path), "old.pth")
    np.testing.assert_array_equal(found["rows"], floats[:6].reshape(2, 3))
    np.testing.assert_array_equal(found["columns"], [[1, 3, 5], [2, 4, 6]])
    assert found["count"] == 7


@pytest.mark.parametrize("name", [("os", "system"), ("builtins", "eval"), ("numpy", "load")])
def test_a_pickle_that_asks_for_anything_else_is_refused(name, tmp_path):
    hostile = f"c{name[0]}\n{name[1]}\n(Vecho > {tmp_path}/done\ntR.".encode()
    start = b"".join(pickle.dumps(each, 2) for each in (MAGIC, VERSION, {}))
    for content in (hostile, start + hostile):
        with pytest.raises(UserError, match=f"it asks for {name[0]}.{name[1]}"):
            read_state(content, "hostile.pth")
    assert not (tmp_path / "done").exists()


def test_a_tensor_that_reaches_out_of_its_storage_is_refused(tmp_path):
    for offset, shape, strides in ((9, (2,), (1,)), (0, (2, 2), (9, 9)), (0, (1 << 40,), (0,))):
        tensor = Tensor(Storage("FloatStorage", "1", 10), offset, shape, strides)
        content = file_of({"a": tensor}, {"1": np.zeros(10, np.float32)}, tmp_path)
        with pytest.raises(UserError, match="bad.pth: not read as weights: a tensor of shape"):
            read_state(content, "bad.pth")


def test_torn_and_foreign_files_are_refused(tmp_path):
    tensor = Tensor(Storage("FloatStorage", "1", 10), 0, (10,), (1,))
    whole = file_of({"a": tensor}, {"1": np.zeros(10, np.float32)}, tmp_path)
    foreign = (b"", b"PK\x03\x04", pickle.dumps([1, 2], 2) * 5)
    for content in (whole[:-1], whole[:60], *foreign):
        with pytest.raises(UserError, match="torn.pth: not read as weights"):
            read_state(content, "torn.pth")
