"""Docker: a compose file that runs one server on this machine."""

from collections.abc import Mapping
from typing import Any

import yaml

from serving.deploy import contract
from serving.deploy.contract import CONFIG, GRPC_PORT, IMAGE, MODELS, PROGRAM, REST_PORT, Deployment
from serving.deploy.server_files import server_files
from serving.server.url_folder import URL_POLL_SECONDS

_MIB = 1 << 20
# What tells a client of Google's storage who it is, and where that lies in the container.
_CREDENTIALS, _KEY = "GOOGLE_APPLICATION_CREDENTIALS", "/credentials.json"


class Docker(contract.Target):
    """A service whose folder of versions is the export's own, so that later exports are served."""

    def files(self, deployment: Deployment) -> Mapping[str, str]:
        """The compose file, and those that the server reads."""
        project = {"name": deployment.label, "services": {"serving": _service(deployment)}}
        return {
            "compose.yaml": yaml.safe_dump(project, sort_keys=False, width=100),
            **{f"config/{name}": text for name, text in server_files(deployment).items()},
            "README.md": _readme(deployment),
        }


def _service(deployment: Deployment) -> dict[str, Any]:
    name = deployment.model_name
    # The image has neither curl nor wget. The ports open when the model answers; a version that
    # failed since is no longer AVAILABLE.
    health = (
        f"exec 3<>/dev/tcp/127.0.0.1/{REST_PORT}"
        f" && printf 'GET /v1/models/{name} HTTP/1.0\\r\\n\\r\\n' >&3 && grep -q AVAILABLE <&3"
    )
    return {
        "image": IMAGE,
        # As process 1 the server would ignore SIGTERM; tini, which this starts, is that instead.
        "init": True,
        "entrypoint": [PROGRAM],
        "command": deployment.arguments,
        "user": f"{contract.USER}:{contract.USER}",
        "read_only": True,
        "tmpfs": ["/tmp"],
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "restart": "unless-stopped",
        "ports": [f"127.0.0.1:{port}:{port}" for port in (GRPC_PORT, REST_PORT)],
        **_versions(deployment),
        "healthcheck": {
            "test": ["CMD", "bash", "-c", health],
            "interval": "10s",
            "timeout": "5s",
            "retries": 3,
            "start_period": f"{start_seconds(deployment)}s",
        },
        "deploy": {
            "resources": {
                "limits": {
                    "cpus": str(deployment.cpus),
                    "memory": f"{-(-deployment.limit_bytes // _MIB)}M",
                },
                "reservations": {"memory": f"{-(-deployment.request_bytes // _MIB)}M"},
            }
        },
    }


def _versions(deployment: Deployment) -> dict[str, Any]:
    """What the container is given to read: its files, and the versions or what opens their URL."""
    config = _mount("./config", str(CONFIG))
    if deployment.url is None:
        models = _mount(str(deployment.base), str(MODELS / deployment.model_name))
        return {"volumes": [models, config]}
    key = f"${{{_CREDENTIALS}:?name the file with the key of a service account}}"
    return {
        "environment": {_CREDENTIALS: _KEY},
        "volumes": [_mount(key, _KEY), config],
    }


def start_seconds(deployment: Deployment) -> int:
    """How long a start may take: far longer than it took here, where nothing else ran."""
    return max(120, round(10 * deployment.measured.load_seconds))


def _mount(source: str, target: str) -> dict[str, Any]:
    return {"type": "bind", "source": source, "target": target, "read_only": True}


def _readme(deployment: Deployment) -> str:
    name, measured = deployment.model_name, deployment.measured
    pause = f"{URL_POLL_SECONDS} s" if deployment.url else "second"
    key = f"""
    export {_CREDENTIALS}=KEY.json    # of a service account that reads the bucket"""
    return f"""# {name} in Docker
{key if deployment.url else ""}
    docker compose up --detach --wait
    curl http://127.0.0.1:{REST_PORT}/v1/models/{name}
    docker compose down

runs `{IMAGE}` on `{deployment.url or deployment.base}`,
which it looks into every {pause}: what `seqloom export` writes there later is served without a
restart. Ports {GRPC_PORT} (gRPC) and {REST_PORT} (REST, and Prometheus's page at
`/monitoring/prometheus/metrics`) are open to this machine alone; change `ports` to let others in,
and put TLS before them then. The server runs as user {contract.USER}, who must be able to read the
{"file with the key" if deployment.url else "versions"}.

Version {deployment.version} took {measured.peak_bytes / _MIB:,.0f} MiB with full batches of \
{deployment.max_batch_size}, {measured.model_bytes / _MIB:,.0f} of them its own, and
{measured.load_seconds:.1f} s to load. The limit of memory leaves room for two versions and a
quarter more, since a new one is loaded before the old one goes. `docker compose stop` ends requests
under way.
"""
