"""TensorFlow Serving's flags, alone and through the command line."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from models.errors import UserError
from pipeline import serve
from serving.server import engine
from serving.server.flags import FLAGS, parse
from serving.server.main import Server
from serving.server.options import ServerOptions
from serving.server.other_flags import OTHER_FLAGS, refuse_others

ROOT = pathlib.Path(__file__).parents[3]
# Those of tensorflow_model_server 2.20; the command line itself reads the first three.
THEIRS = """
port rest_api_port version grpc_socket_path rest_api_num_threads rest_api_timeout_in_ms
rest_api_enable_cors_support enable_batching allow_version_labels_for_unavailable_models
batching_parameters_file enable_per_model_batching_parameters model_config_file
model_config_file_poll_wait_seconds model_name model_base_path num_load_threads num_unload_threads
max_num_load_retries load_retry_interval_micros file_system_poll_wait_seconds
flush_filesystem_caches tensorflow_session_parallelism tensorflow_session_config_file
tensorflow_intra_op_parallelism tensorflow_inter_op_parallelism use_alts_credentials ssl_config_file
platform_config_file per_process_gpu_memory_fraction saved_model_tags grpc_channel_arguments
grpc_max_threads enable_model_warmup num_request_iterations_for_warmup monitoring_config_file
remove_unused_fields_from_bundle_metagraph prefer_tflite_model num_tflite_pools
num_tflite_interpreters_per_pool enable_signature_method_name_check xla_cpu_compilation_enabled
xla_gpu_compilation_enabled enable_profiler thread_pool_factory_config_file mixed_precision
skip_initialize_tpu enable_grpc_healthcheck_service enable_serialization_as_tensor_content
""".split()


def command(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-m", "pipeline.cli", "serve", *map(str, arguments)]
    return subprocess.Popen(
        line, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def complaint(*arguments):
    process = command(*arguments)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2, errors
    return " ".join(errors.split())


def test_every_flag_of_tensorflow_serving_is_known():
    assert {"port", "rest_api_port", "version", *FLAGS, *OTHER_FLAGS} == set(THEIRS)
    assert not FLAGS.keys() & OTHER_FLAGS.keys()


def test_values_are_read_by_the_type_of_their_option():
    flags = [
        "--model_name=m",
        "--model_base_path=/models/m",
        "--model_config_file=",
        "--model_config_file_poll_wait_seconds=5",
        "--allow_version_labels_for_unavailable_models",
        "--load_retry_interval_micros=1500000",
        "--rest_api_timeout_in_ms=100",
        "--max_num_load_retries=1",
        "--max_num_load_retries=2",
        "--per_process_gpu_memory_fraction=0.25",
        "--num_load_threads=4",
        "--flush_filesystem_caches",
    ]
    assert parse(flags) == {
        "model_name": "m",
        "base_path": pathlib.Path("/models/m"),
        "model_config_file": None,
        "model_config_file_poll_wait_seconds": 5,
        "allow_version_labels_for_unavailable_models": True,
        "load_retry_interval_seconds": 1.5,
        "rest_api_timeout_in_ms": 100,
        "max_num_load_retries": 2,
        "gpu_memory_fraction": 0.25,
        "other_flags": {"num_load_threads": 4, "flush_filesystem_caches": True},
    }
    assert parse(["--allow_version_labels_for_unavailable_models=false"]) == {
        "allow_version_labels_for_unavailable_models": False
    }
    # Below zero that server does not wait.
    assert parse(["--load_retry_interval_micros=-1"]) == {"load_retry_interval_seconds": 0.0}


def test_every_flag_sets_an_option():
    fields = ServerOptions.__dataclass_fields__
    assert {flag.option for flag in FLAGS.values()} <= fields.keys()


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--model_nmae=m", "unknown argument: --model_nmae=m; known .*--model_name"),
        ("-x", "unknown argument: -x"),
        ("--max_num_load_retries=many", "got 'many', expected --max_num_load_retries=WHOLE_NUMBER"),
        ("--max_num_load_retries", "got '', expected --max_num_load_retries=WHOLE_NUMBER"),
        ("--max_num_load_retries=1_000", "got '1_000', expected"),
        ("--max_num_load_retries=2147483648", "got '2147483648', expected"),
        ("--rest_api_num_threads=-1", "got '-1', expected"),
        ("--file_system_poll_wait_seconds=0.5", "got '0.5', expected .*=SECONDS"),
        ("--per_process_gpu_memory_fraction=nan", "got 'nan', expected .*=NUMBER"),
        ("--model_base_path", "got '', expected --model_base_path=FOLDER"),
        ("--model_name=", "got '', expected --model_name=NAME"),
        ("--num_load_threads=x", "got 'x', expected --num_load_threads=WHOLE_NUMBER"),
        # That program reads these two words and no others.
        ("--enable_batching=True", "got 'True', expected --enable_batching=true or false"),
        ("--flush_filesystem_caches=1", "got '1', expected .*=true or false"),
    ],
)
def test_wrong_flags_are_told(argument, message):
    with pytest.raises(UserError, match=message):
        parse([argument])


@pytest.mark.parametrize(
    "flag",
    [
        "prefer_tflite_model=true",
        "xla_cpu_compilation_enabled",
        "xla_gpu_compilation_enabled=true",
        "use_alts_credentials=true",
        "platform_config_file=platforms",
        "thread_pool_factory_config_file=pools",
        "mixed_precision=bfloat16",
    ],
)
def test_flags_that_ask_for_what_the_embedded_server_cannot_do_are_refused(base_path, flag):
    given = parse([f"--{flag}"])
    with pytest.raises(UserError, match=f"--{flag.split('=')[0]}: the embedded .*engine tensorfl"):
        Server(ServerOptions("m", base_path, **given))
    nothing = "" if "file" in flag or "mixed" in flag else "false"
    refuse_others(parse([f"--{flag.split('=')[0]}={nothing}"])["other_flags"])


def test_flags_without_effect_are_told_of(caplog):
    given = parse(["--num_unload_threads=3", "--skip_initialize_tpu"])
    refuse_others(given["other_flags"])
    assert [record.getMessage()[:60] for record in caplog.records] == [
        "--num_unload_threads does nothing in the embedded server: ea",
        "--skip_initialize_tpu does nothing in the embedded server: T",
    ]


def test_every_flag_reaches_the_real_server(base_path):
    words = {
        "load_retry_interval_micros": "1500000",
        "model_base_path": base_path,
        # One number for both ports.
        "rest_api_num_threads": "7",
        "grpc_max_threads": "7",
        "per_process_gpu_memory_fraction": "0.5",
        "grpc_channel_arguments": "grpc.max_connection_age_ms=2000",
    }
    switches = {name for name, flag in FLAGS.items() if flag.kind.bare}
    on_there = {"enable_profiler", "enable_model_warmup"}
    words |= {name: "false" if name in on_there else "true" for name in switches}
    words |= {name: "true" for name, flag in OTHER_FLAGS.items() if flag.kind.bare}
    words |= {name: "3" for name in {*FLAGS, *OTHER_FLAGS} - words.keys()}
    for left_out in ("model_config_file", "model_base_path"):
        given = parse([f"--{name}={word}" for name, word in words.items() if name != left_out])
        passed = engine.arguments(ServerOptions(**given))
        ignored = {left_out}
        if left_out == "model_base_path":
            ignored.add("model_name")  # That program ignores it beside a file.
        else:
            ignored |= {
                "model_config_file_poll_wait_seconds",
                "allow_version_labels_for_unavailable_models",
            }
        expected = {f"--{name}={word}" for name, word in words.items() if name not in ignored}
        assert expected <= set(passed)


def test_a_file_of_models_stands_above_a_base_path(tmp_path, base_path):
    config = tmp_path / "models.config"
    config.write_text(
        f'model_config_list {{ config {{ name: "listed" base_path: "{base_path}" '
        'model_platform: "tensorflow" } }'
    )
    options = ServerOptions(
        "other", tmp_path / "gone", model_config_file=config, port=0, rest_api_port=0
    )
    with Server(options) as server:
        url = f"http://{server.addresses.rest}/v1/models/listed"
        with urllib.request.urlopen(url, timeout=30) as response:
            assert response.status == 200


def test_the_command_line_serves_a_folder_by_flags(base_path, tmp_path):
    addresses = tmp_path / "addresses.json"
    process = command(
        base_path,
        "--model_name=renamed",
        "--port=0",
        "--rest_api_port=0",
        "--engine=embedded",
        f"--address-file={addresses}",
    )
    try:
        for _ in range(1200):
            if addresses.exists() or process.poll() is not None:
                break
            time.sleep(0.1)
        rest = json.loads(addresses.read_text())["rest"]
        request = urllib.request.Request(
            f"http://{rest}/v1/models/renamed:predict", b'{"instances": ["a"]}'
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            assert json.load(response)["predictions"][0]["translation"] == "A"
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


@pytest.fixture
def served(monkeypatch):
    """The options of the server that would have started."""
    served = []
    monkeypatch.setattr(serve, "serve", lambda options, engine: served.append(options) or 0)
    return served


def test_a_folder_of_versions_is_served_under_its_name(base_path, served):
    assert serve.serve_folder(base_path, parse(["--max_num_load_retries=1"]), "embedded") == 0
    assert serve.serve_folder(base_path.parent, {"model_name": "other"}, "embedded") == 0
    names = [(one.model_name, one.base_path, one.max_num_load_retries) for one in served]
    assert names == [("translation", base_path, 1), ("other", base_path, 0)]


def test_a_folder_without_one_model_is_a_mistake(base_path, tmp_path, served):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="empty: no exported model in it; give the folder that"):
        serve.serve_folder(tmp_path / "empty", {}, "embedded")
    shutil.copytree(base_path, tmp_path / "second")
    with pytest.raises(UserError, match=r"2 models in it; give the folder of one \(.*second, "):
        serve.serve_folder(tmp_path, {}, "embedded")
    with pytest.raises(UserError, match="a folder and --model_base_path were both given"):
        serve.serve_folder(base_path, {"base_path": base_path}, "embedded")
    assert served == []


def test_mistakes_on_the_command_line_are_status_2(tmp_path):
    config = tmp_path / "models.config"
    config.write_text("model_config_lst {}")
    assert "unknown argument: --model_nmae=m" in complaint("--model_nmae=m")
    told = complaint("--engine=embedded", f"--model_config_file={config}", "--port=0")
    assert "Invalid protobuf file" in told
    both = complaint(ROOT / "configs" / "demo.yaml", f"--model_config_file={config}")
    assert "an experiment and --model_config_file were both given" in both
