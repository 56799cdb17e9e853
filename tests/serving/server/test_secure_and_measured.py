"""TLS, unix sockets and the page of metrics, over real sockets."""

import http.client
import re
import shutil
import subprocess
import urllib.error
import urllib.request

import grpc
import pytest
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from models.errors import UserError
from serving.server.main import Server
from serving.server.metrics import Histogram, Metrics
from serving.server.options import ServerOptions


def options(base_path, **changes):
    return ServerOptions("translation", base_path, port=0, rest_api_port=0, **changes)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Keys and certificates by name; `server` and `client` are signed by `ca`, `alien` by none."""
    if not shutil.which("openssl"):
        pytest.skip("openssl, which makes the certificates of this test, is not on PATH")
    folder = tmp_path_factory.mktemp("certificates")

    def make(name, *more):
        new = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
        files = ["-keyout", f"{name}.key", "-out", f"{name}.crt", "-subj", f"/CN={name}"]
        subject = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        command = [*new.split(), *files, *subject, *more]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)

    make("ca")
    make("alien")
    for name in ("server", "client"):
        make(name, "-CA", "ca.crt", "-CAkey", "ca.key")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def ssl_config(tmp_path, certificates, verify):
    def quoted(name):
        return '"' + certificates[name].decode().replace("\n", "\\n") + '"'

    lines = [f"server_key: {quoted('server.key')}", f"server_cert: {quoted('server.crt')}"]
    lines += [f"custom_ca: {quoted('ca.crt')}", f"client_verify: {str(verify).lower()}"]
    path = tmp_path / "ssl.config"
    path.write_text("\n".join(lines))
    return path


def translate(channel, name="translation"):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    request.inputs["text"].dtype = 7
    request.inputs["text"].tensor_shape.dim.add().size = 1
    request.inputs["text"].string_val.append(b"a")
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    return list(stub.Predict(request, timeout=20).outputs["translation"].string_val)


def refused(channel):
    with pytest.raises(grpc.RpcError) as caught:
        translate(channel)
    return caught.value.code().name


def credentials(certificates, client=""):
    pair = [certificates[f"{client}.key"], certificates[f"{client}.crt"]] if client else []
    return grpc.ssl_channel_credentials(certificates["ca.crt"], *pair)


def test_only_clients_with_a_certificate_of_the_ca_get_in(base_path, tmp_path, certificates):
    path = ssl_config(tmp_path, certificates, verify=True)
    with Server(options(base_path, ssl_config_file=path)) as server:
        address = server.addresses.grpc
        with grpc.secure_channel(address, credentials(certificates, "client")) as channel:
            assert translate(channel) == [b"A"]
        for stranger in ("", "alien"):
            with grpc.secure_channel(address, credentials(certificates, stranger)) as channel:
                assert refused(channel) == "UNAVAILABLE"
        with grpc.insecure_channel(address) as channel:
            assert refused(channel) == "UNAVAILABLE"


def test_the_server_alone_may_show_a_certificate(base_path, tmp_path, certificates):
    path = ssl_config(tmp_path, certificates, verify=False)
    with Server(options(base_path, ssl_config_file=path)) as server:
        with grpc.secure_channel(server.addresses.grpc, credentials(certificates)) as channel:
            assert translate(channel) == [b"A"]


def test_an_ssl_config_with_something_missing(base_path, tmp_path):
    path = tmp_path / "ssl.config"
    path.write_text('server_key: "x" server_cert: "y" client_verify: true')
    with pytest.raises(UserError, match=r"ssl.config: custom_ca is empty"):
        Server(options(base_path, ssl_config_file=path))
    path.write_text("client_verifies: true")
    with pytest.raises(UserError, match="Invalid protobuf file: '.*ssl.config': line 1"):
        Server(options(base_path, ssl_config_file=path))


def test_grpc_answers_on_a_unix_socket_too(base_path, tmp_path):
    path = tmp_path / "grpc.sock"
    with Server(options(base_path, grpc_socket_path=path)) as server:
        for address in (f"unix:{path}", server.addresses.grpc):
            with grpc.insecure_channel(address) as channel:
                assert translate(channel) == [b"A"]


def test_a_unix_socket_speaks_tls_where_the_port_does(base_path, tmp_path, certificates):
    changes = {
        "ssl_config_file": ssl_config(tmp_path, certificates, verify=True),
        "grpc_socket_path": tmp_path / "grpc.sock",
    }
    address = f"unix:{tmp_path}/grpc.sock"
    named = [("grpc.ssl_target_name_override", "localhost")]
    with Server(options(base_path, **changes)):
        with grpc.secure_channel(address, credentials(certificates, "client"), named) as channel:
            assert translate(channel) == [b"A"]
        with grpc.insecure_channel(address) as channel:
            assert refused(channel) == "UNAVAILABLE"


def test_requests_are_counted_by_model_and_status(base_path, tmp_path):
    config = tmp_path / "monitoring.config"
    config.write_text("prometheus_config { enable: true }")
    with Server(options(base_path, monitoring_config_file=config)) as server:
        url = f"http://{server.addresses.rest}"
        with grpc.insecure_channel(server.addresses.grpc) as channel:
            for _ in range(3):
                translate(channel)
            with pytest.raises(grpc.RpcError):
                translate(channel, name="other")
        post = urllib.request.Request(
            f"{url}/v1/models/translation:predict", b'{"instances": ["a"]}'
        )
        urllib.request.urlopen(post, timeout=30).close()
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{post.full_url}", b"{}", timeout=30)
        page = f"{url}/monitoring/prometheus/metrics"
        with urllib.request.urlopen(page, timeout=30) as response:
            assert response.headers["Content-Type"] == "text/plain"
            lines = response.read().decode().splitlines()
    count = ":tensorflow:serving:request_count"
    assert [line for line in lines if line.startswith((f"# TYPE {count}", count))] == [
        f"# TYPE {count} counter",
        f'{count}{{model_name="other",status="NOT_FOUND"}} 1',
        f'{count}{{model_name="translation",status="INVALID_ARGUMENT"}} 1',
        f'{count}{{model_name="translation",status="OK"}} 4',
    ]
    latency = ":tensorflow:serving:request_latency"
    assert f"# TYPE {latency} histogram" in lines
    for api, entrypoint, number in (("Predict", "GRPC", 3), ("predict", "REST", 1)):
        labels = f'model_name="translation",API="{api}",entrypoint="{entrypoint}"'
        assert f'{latency}_bucket{{{labels},le="+Inf"}} {number}' in lines
        assert f"{latency}_count{{{labels}}} {number}" in lines
        (total,) = (line for line in lines if line.startswith(f"{latency}_sum{{{labels}}}"))
        assert float(total.split()[-1]) > 0
    runtime = ":tensorflow:serving:runtime_latency"
    labels = 'model_name="translation",API="Predict",runtime="TF1"'
    # Of both ways in: the three calls and the one request that went well.
    assert f"{runtime}_count{{{labels}}} 4" in lines
    (total,) = (line for line in lines if line.startswith(f"{runtime}_sum{{{labels}}}"))
    assert float(total.split()[-1]) > 0
    bounds = re.findall(r'entrypoint="REST",le="([^"]+)"', "\n".join(lines))
    assert (len(bounds), bounds[:3], bounds[19]) == (34, ["10", "18", "32.4"], "708235")


def test_all_requests_to_the_rest_api_are_counted(base_path, tmp_path):
    config = tmp_path / "monitoring.config"
    config.write_text("prometheus_config { enable: true }")
    count, latency = ":tensorflow:serving:request_count", ":tensorflow:serving:request_latency"
    with Server(options(base_path, monitoring_config_file=config)) as server:
        connection = http.client.HTTPConnection(server.addresses.rest, timeout=30)

        def ask(method, path):
            connection.request(method, path)
            return connection.getresponse().read().decode()

        for path in ("", "/metadata", f"/versions/{1 << 63}"):
            ask("GET", f"/v1/models/translation{path}")
        for method, path in (("GET", "/v1/models/other"), ("PUT", "/v1/x"), ("OPTIONS", "/v1/x")):
            ask(method, path)
        ask("GET", "/elsewhere")
        path = "/monitoring/prometheus/metrics"
        wrong = ask("GET", f"{path}?x=1")
        assert wrong == f"Unexpected path: {path}?x=1. Should be {path}"
        lines = ask("GET", path).splitlines()
        connection.close()
    assert [line for line in lines if line.startswith(f"{count}{{")] == [
        f'{count}{{model_name="",status="FAILED_PRECONDITION"}} 1',
        f'{count}{{model_name="",status="INVALID_ARGUMENT"}} 1',
        f'{count}{{model_name="other",status="NOT_FOUND"}} 1',
        f'{count}{{model_name="translation",status="INVALID_ARGUMENT"}} 1',
        f'{count}{{model_name="translation",status="OK"}} 2',
    ]
    assert f'{latency}_count{{model_name="translation",API="",entrypoint="REST"}} 2' in lines


def test_batches_and_their_waiting_are_counted(base_path, tmp_path):
    config = tmp_path / "monitoring.config"
    config.write_text("prometheus_config { enable: true }")
    batching = tmp_path / "batching.config"
    batching.write_text("max_batch_size { value: 8 } thread_pool_name { value: 'pool' }")
    changes = {"enable_batching": True, "batching_parameters_file": batching}
    with Server(options(base_path, monitoring_config_file=config, **changes)) as server:
        with grpc.insecure_channel(server.addresses.grpc) as channel:
            for _ in range(3):
                translate(channel)
        page = f"http://{server.addresses.rest}/monitoring/prometheus/metrics"
        with urllib.request.urlopen(page, timeout=30) as response:
            lines = response.read().decode().splitlines()
    before = ":tensorflow:serving:batching_session"
    assert f"# TYPE {before}:wrapped_run_count counter" in lines
    assert f"{before}:wrapped_run_count{{}} 3" in lines
    waiting = f'{before}:queuing_latency_bucket{{thread_pool_name="pool",le="'
    bounds = [line[len(waiting) :].split('"')[0] for line in lines if line.startswith(waiting)]
    assert (len(bounds), bounds[:3], bounds[-1]) == (53, ["100", "120", "144"], "+Inf")
    assert f'{before}:queuing_latency_count{{thread_pool_name="pool"}} 3' in lines


def test_names_that_strangers_make_up_do_not_fill_the_memory():
    metrics = Metrics()
    for number in range(1500):
        metrics.record(f"made up {number}", "Predict", "GRPC", "NOT_FOUND", 0.0)
    lines = metrics.page().decode().splitlines()
    counted = [line for line in lines if line.startswith(":tensorflow:serving:request_count{")]
    assert len(counted) == 1001
    others = 'model_name="(others)",status="NOT_FOUND"'
    assert f":tensorflow:serving:request_count{{{others}}} 500" in counted


def test_without_a_monitoring_config_there_is_no_page(tiny_server):
    page = f"http://{tiny_server.addresses.rest}/monitoring/prometheus/metrics"
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(page, timeout=30)


def test_a_histogram_adds_up_from_bucket_to_bucket():
    histogram = Histogram(("a",), [1, 10])
    for sample in (0.5, 1.0, 3, 99):
        histogram.add(('x"',), sample)
    assert list(histogram.lines("h")) == [
        'h_bucket{a="x\\"",le="1"} 1',
        'h_bucket{a="x\\"",le="10"} 3',
        'h_bucket{a="x\\"",le="+Inf"} 4',
        'h_sum{a="x\\""} 103.5',
        'h_count{a="x\\""} 4',
    ]
