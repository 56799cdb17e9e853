"""TensorFlow Serving's own tests against this server, where a checkout of them is at hand.

SEQLOOM_TF_SERVING_SOURCE names the checkout of github.com/tensorflow/serving. Its Python test of
the server runs as it is; the cases of its C++ tests of JSON and of the REST API are read from their
source. A statement that is not understood fails its case.
"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree

import pytest

from serving.server.main import Server
from serving.server.metrics import Metrics
from serving.server.models import Models
from serving.server.options import ServerOptions
from serving.server.rest_api import RestApi
from tests.serving.server.their_cases import read_cases
from tests.serving.server.their_json import JsonInterpreter
from tests.serving.server.their_python_tests import TEST
from tests.serving.server.their_rest import RestInterpreter

ROOT = pathlib.Path(__file__).parents[3]
SOURCE = pathlib.Path(os.environ.get("SEQLOOM_TF_SERVING_SOURCE", "/nonexistent"))
THEIRS = SOURCE / "tensorflow_serving"
TESTDATA = THEIRS / "servables/tensorflow/testdata"
# TensorFlow Lite is not served here.
LEFT_OUT = {"testPredictOnTfLite", "testPredictWithSignatureDefOnTfLite"}
# These expect the names that Keras 2 gives inputs, which the package tf_keras still does.
OF_KERAS_2 = {
    "test_sequential_keras_saved_model_save",
    "test_distrat_sequential_keras_saved_model_save",
}

pytestmark = pytest.mark.skipif(
    not THEIRS.is_dir(), reason="SEQLOOM_TF_SERVING_SOURCE names no checkout of TensorFlow Serving"
)


def cases(path):
    source = THEIRS / path
    found = list(read_cases(source.read_text())) if source.exists() else []
    return pytest.mark.parametrize("case", found, ids=[case.name for case in found])


@pytest.mark.timeout(1800)
def test_their_server_test(tmp_path):
    build_folder(tmp_path / "src")
    names = re.findall(r"  def (test\w+)\(self", (SOURCE / TEST).read_text())
    lacking = set() if (TESTDATA / "tf_text_regression/01").exists() else {"test_tf_text"}
    lacking |= set() if importlib.util.find_spec("tf_keras") else OF_KERAS_2
    wanted = [name for name in names if name not in LEFT_OUT | lacking]
    command = [sys.executable, pathlib.Path(__file__).with_name("their_python_tests.py"), SOURCE]
    command += [f"--test_tmpdir={tmp_path}", f"--xml_output_file={tmp_path}/results.xml"]
    command += [f"TensorflowModelServerTest.{name}" for name in wanted]
    places = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "TEST_SRCDIR": str(tmp_path / "src"), "PYTHONPATH": places}
    if not lacking & OF_KERAS_2:
        environment["TF_USE_LEGACY_KERAS"] = "1"
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    results = xml.etree.ElementTree.parse(tmp_path / "results.xml").iter("testcase")
    outcomes = {case.get("name"): failures(case) for case in results}
    assert set(outcomes) == set(wanted), done.stderr[-3000:]
    assert {name: bad for name, bad in outcomes.items() if bad} == {}


def failures(case):
    return [bad.get("message") for kind in ("failure", "error") for bad in case.iter(kind)]


def build_folder(folder):
    """The tree that the test finds its files in, with this server for the program."""
    there = folder / "tf_serving/tensorflow_serving"
    there.mkdir(parents=True)
    (there / "servables").symlink_to(THEIRS / "servables")
    external = folder / "tf_serving/external/org_tensorflow/tensorflow/cc/saved_model/testdata"
    external.mkdir(parents=True)
    # TensorFlow's own folder of test data has the same model.
    (external / "half_plus_two").symlink_to(TESTDATA / "saved_model_half_plus_two_cpu")
    program = there / "model_servers/tensorflow_model_server"
    program.parent.mkdir()
    serve = f"{sys.executable} -m pipeline.cli serve --engine embedded"
    alone = f"env -u TF_USE_LEGACY_KERAS PYTHONPATH={ROOT}"
    program.write_text(f'#!/bin/sh\nexec {alone} {serve} "$@"\n')
    program.chmod(0o755)


@cases("util/json_tensor_test.cc")
def test_their_json_cases(case):
    JsonInterpreter(case).run()


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    folder = tmp_path_factory.mktemp("theirs")
    config = folder / "models.config"
    name, base = RestInterpreter.names["kTestModelName"], TESTDATA / "saved_model_half_plus_two_cpu"
    config.write_text(
        f'model_config_list {{ config {{ name: "{name}" base_path: "{base}" '
        'model_platform: "tensorflow" version_labels { key: "some_label" value: 123 } } }'
    )
    options = ServerOptions(
        model_config_file=config,
        allow_version_labels_for_unavailable_models=True,
        port=0,
        rest_api_port=0,
    )
    with Server(options) as server:
        yield RestApi(Models(server._manager), 30_000, Metrics())


@cases("model_servers/http_rest_api_handler_test.cc")
def test_their_rest_cases(case, api):
    RestInterpreter(case, api, SOURCE).run()
