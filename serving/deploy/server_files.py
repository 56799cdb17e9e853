"""The files that TensorFlow Serving itself reads, written through its own messages."""

from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from serving.deploy.contract import Deployment
from serving.server.text_config import BatchingParameters, MonitoringConfig

# Batches of each signature that may wait. Requests of a deeper queue would time out in it.
_MOST_ENQUEUED = 100


def server_files(deployment: Deployment) -> dict[str, str]:
    """Text by the name of the file."""
    return {
        "models.config": _models(deployment),
        "batching.config": _batching(deployment),
        "monitoring.config": _monitoring(),
    }


def _models(deployment: Deployment) -> str:
    config = model_server_config_pb2.ModelServerConfig()
    model = config.model_config_list.config.add()
    model.name = deployment.model_name
    model.base_path = deployment.served_base
    model.model_platform = "tensorflow"
    model.model_version_policy.latest.num_versions = 1
    return text_format.MessageToString(config)


def _batching(deployment: Deployment) -> str:
    rules = BatchingParameters()
    rules.max_batch_size.value = deployment.max_batch_size
    rules.batch_timeout_micros.value = deployment.batch_timeout_micros
    rules.max_enqueued_batches.value = _MOST_ENQUEUED
    rules.num_batch_threads.value = deployment.cpus
    # All sizes are allowed: graphs take any, and rows that fill a batch up would cost as others.
    return text_format.MessageToString(rules)


def _monitoring() -> str:
    config = MonitoringConfig()
    config.prometheus_config.enable = True
    return text_format.MessageToString(config)
