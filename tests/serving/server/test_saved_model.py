import threading

import numpy as np
import pytest
import tensorflow as tf

from serving.server.saved_model import SavedModelSession
from serving.server.status import ServingError


@pytest.fixture(scope="module")
def session(tiny_exports):
    session = SavedModelSession(tiny_exports[""])
    yield session
    session.close()


def strings(*values):
    return np.array(values, dtype=object)


def names(session, signature="serving_default"):
    definition = session.signatures[signature]
    tensors = {**definition.inputs, **definition.outputs}
    return {alias: info.name for alias, info in tensors.items()}


def test_a_run_gives_the_tensors_asked_for(session):
    name = names(session)
    (translation,) = session.run({name["text"]: strings(b"a", b"b")}, [name["translation"]])
    assert translation.tolist() == [b"A", b"B"]


def test_a_run_that_takes_too_long_is_stopped(session):
    name = names(session)
    with pytest.raises(ServingError) as caught:
        session.run({name["text"]: strings(b"wait:600")}, [name["translation"]], 100)
    assert caught.value.http_status == 504
    assert caught.value.message == "Timed out waiting for notification"


def test_scalars_are_arrays_too(session):
    name = names(session, "numbers")
    (y,) = session.run({name["x"]: np.array(2.5, np.float32)}, [name["y"]])
    assert y.shape == () and y == 2.5


def test_sessions_do_not_share_variables(tmp_path):
    def counter(start):
        module = tf.Module()
        module.count = tf.Variable(start, name="count")

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="step")])
        def add(step):
            return {"count": step + module.count.assign_add(tf.reduce_sum(step))}

        module.add = add
        tf.saved_model.save(module, str(tmp_path / str(start)), signatures={"add": add})
        return SavedModelSession(tmp_path / str(start))

    first, second = counter(10), counter(20)
    step = np.array([1], np.int32)

    def add(session):
        name = names(session, "add")
        return session.run({name["step"]: step}, [name["count"]])[0].tolist()

    assert [add(first), add(first), add(second), add(first)] == [[12], [13], [22], [14]]
    first.close()
    assert add(second) == [23]
    second.close()


def test_runs_overlap(session):
    name = names(session)
    slow = threading.Thread(
        target=session.run,
        args=({name["text"]: strings(b"wait:3")}, [name["translation"]]),
    )
    slow.start()
    session.run({name["text"]: strings(b"quick")}, [name["translation"]])
    assert slow.is_alive()
    slow.join()


def test_an_empty_folder_is_not_found(tmp_path):
    with pytest.raises(ServingError) as caught:
        SavedModelSession(tmp_path)
    assert caught.value.code.name == "NOT_FOUND"
    assert str(tmp_path) in caught.value.message


def test_a_damaged_file_is_told(tmp_path, tiny_exports):
    (tmp_path / "saved_model.pb").write_bytes(b"\xff" * 100)
    with pytest.raises(ServingError) as caught:
        SavedModelSession(tmp_path)
    assert str(tmp_path) in caught.value.message


def test_missing_variables_are_told(tmp_path):
    module = tf.Module()
    module.weight = tf.Variable([1.0])
    module.call = tf.function(
        lambda x: {"y": x * module.weight}, input_signature=[tf.TensorSpec([None], tf.float32)]
    )
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.call})
    for file in (tmp_path / "variables").iterdir():
        file.unlink()
    with pytest.raises(ServingError, match="variables"):
        SavedModelSession(tmp_path)


def test_what_production_cannot_run_is_refused_here_too(tmp_path):
    module = tf.Module()
    module.call = tf.function(
        lambda text: {"y": tf.numpy_function(lambda value: value, [text], tf.string)},
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.call})
    with pytest.raises(ServingError, match="TensorFlow Serving would not load it.*python-callback"):
        SavedModelSession(tmp_path)
