import keras
import numpy as np
import pytest
import tensorflow as tf

from models.embedding import Embedding
from tests.models.examples import close

VOCABULARY, FEATURES = 6, 3
IDS = np.array([[4, 0], [5, 4], [1, 4]], np.int32)


def make(kind=Embedding):
    layer = kind(VOCABULARY, FEATURES)
    layer.build((None, None))
    table = np.random.default_rng(0).normal(size=(VOCABULARY, FEATURES))
    layer.set_weights([table])
    return layer


@pytest.mark.usefixtures("float64")
def test_a_word_is_its_row():
    layer = make()
    close(layer(tf.constant(IDS)), layer.get_weights()[0][IDS], 0.0)


def test_it_is_keras_embedding():
    close(make()(tf.constant(IDS)), make(keras.layers.Embedding)(tf.constant(IDS)), 0.0)
    assert make().variables[0].path.split("/")[-1] == "embeddings"
    config = make().get_config()
    assert Embedding.from_config(config).get_config() == config


def test_gradients_are_the_rows_of_the_words():
    layer = make()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(tf.constant(IDS)) ** 2)
    gradient = tape.gradient(loss, layer.embeddings.value)
    assert isinstance(gradient, tf.IndexedSlices) and gradient.values.shape == (6, FEATURES)
    times = np.bincount(IDS.reshape(-1), minlength=VOCABULARY)[:, np.newaxis]
    close(tf.convert_to_tensor(gradient), 2.0 * times * layer.get_weights()[0], 1e-6)


def test_the_table_is_not_read_whole():
    layer = make()
    graph = tf.function(layer.__call__).get_concrete_function(tf.constant(IDS)).graph
    assert "ReadVariableOp" not in {each.type for each in graph.get_operations()}


@pytest.mark.usefixtures("mixed_bfloat16")
def test_under_bfloat16_rows_are_cast():
    layer = make()
    found = layer(tf.constant(IDS))
    assert found.dtype == tf.bfloat16 and layer.embeddings.dtype == "float32"
    close(found, tf.cast(layer.get_weights()[0][IDS], tf.bfloat16), 0.0)
