"""What is measured of a run, and the table it leaves."""

import csv

import numpy as np
import tensorflow as tf

from pipeline.train.gradient_flow import GradientFlowReport, longest_rows
from tests.models.examples import make_model

BATCHES = [
    (
        {
            "source": tf.constant([[5, 2, 0, 0], [6, 7, 5, 2], [0, 0, 0, 0]]),
            "target": tf.constant([[1, 5, 0], [1, 6, 7], [0, 0, 0]]),
        },
        tf.zeros([3, 3], tf.int32),
    ),
    (
        {"source": tf.constant([[4, 5, 2]]), "target": tf.constant([[1, 7, 7]])},
        tf.zeros([1, 3], tf.int32),
    ),
]


def test_the_longest_rows_are_taken_without_their_pads():
    found = [
        [values.numpy().tolist() for values in row.values()] for row in longest_rows(BATCHES, 2)
    ]
    assert found == [[[[6, 7, 5, 2]], [[1, 6, 7]]], [[[4, 5, 2]], [[1, 7, 7]]]]
    assert len(longest_rows(BATCHES, 9)) == 3


def test_inputs_that_are_no_ids_stay_whole():
    images = tf.zeros([1, 4, 4, 3])
    (row,) = longest_rows([({"image": images, "target": tf.constant([[1, 5, 0]])}, None)], 1)
    assert row["image"].shape == (1, 4, 4, 3) and row["target"].shape == (1, 2)


def test_a_segment_of_a_stream_is_measured_alone():
    inputs = {"target": tf.constant([[1, 5, 0]]), "continues": tf.constant([1])}
    (row,) = longest_rows([(inputs, None)], 1)
    assert list(row) == ["target"]


def read(folder):
    with (folder / "gradient_flow.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_table_grows_by_validations_and_a_resumed_run_writes_its_own_lines(tmp_path):
    report = GradientFlowReport(make_model(), BATCHES, 2, 3, tmp_path)
    flows = report.measure(10)
    report.measure(20)
    rows = read(tmp_path)
    assert [row["step"] for row in rows] == ["10"] * (len(rows) // 2) + ["20"] * (len(rows) // 2)
    first = [row for row in rows if row["step"] == "10" and row["layer"] == flows[0].name]
    assert [int(row["distance"]) for row in first] == flows[0].distances.tolist()
    np.testing.assert_allclose(
        [float(row["hidden_norm"]) for row in first], flows[0].hidden, rtol=1e-5
    )
    np.testing.assert_allclose(
        [float(row["state_norm"]) for row in first], flows[0].state, rtol=1e-5
    )
    assert {row["bound"] for row in rows} == {""}

    GradientFlowReport(make_model(), BATCHES, 2, 3, tmp_path).measure(15)
    assert {row["step"] for row in read(tmp_path)} == {"10", "15"}
