"""Which models to serve, as TensorFlow Serving's `ModelServerConfig` says it."""

import dataclasses
import pathlib
from collections.abc import Mapping

import grpc
from tensorflow_serving.config import model_server_config_pb2
from tensorflow_serving.config.file_system_storage_path_source_pb2 import (
    FileSystemStoragePathSourceConfig,
)

from serving.server.status import ServingError, invalid_argument
from serving.server.text_config import read_text_proto
from serving.server.url_folder import Folder, folder_of
from serving.server.version_choice import All, Latest, Specific, VersionChoice

_PLATFORM = "tensorflow"


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """One model to serve.

    Attributes:
        name: Name that requests give.
        base_path: Folder that holds one folder a version, or its URL.
        choice: Which of them are served.
        labels: Version number by the label that requests may give in its place.
    """

    name: str
    base_path: Folder
    choice: VersionChoice = Latest()
    labels: Mapping[str, int] = dataclasses.field(default_factory=dict)


def read_config_file(path: pathlib.Path) -> list[ModelConfig]:
    """Read the file that `--model_config_file` names.

    Raises:
        UserError: If it is no `ModelServerConfig`.
        ServingError: If it is one that cannot be served.
    """
    flag = "--model_config_file"
    return from_proto(read_text_proto(flag, path, model_server_config_pb2.ModelServerConfig))


def from_proto(config: model_server_config_pb2.ModelServerConfig) -> list[ModelConfig]:
    """Check a configuration, and take it over.

    Raises:
        ServingError: If it cannot be served, with the real server's words.
    """
    if config.WhichOneof("config") == "custom_model_config":
        raise ServingError(
            grpc.StatusCode.INVALID_ARGUMENT, "ModelServer does not yet support custom model config"
        )
    models = config.model_config_list.config
    _check_names(models)
    for model in models:
        folder = folder_of(model.base_path)
        if isinstance(folder, pathlib.Path) and not folder.is_absolute():
            raise invalid_argument(
                f"Expected model {model.name} to have an absolute path or URI; got "
                f"base_path()={model.base_path}"
            )
    for model in models:
        _check_platform(model)
        if model.HasField("logging_config"):
            # Its program has nothing that could log requests, and neither has this one.
            raise invalid_argument("No request-logger-creator provided.")
    return [
        ModelConfig(
            model.name,
            folder_of(model.base_path),
            _choice(model.model_version_policy),
            dict(model.version_labels),
        )
        for model in models
    ]


def _check_names(models: list[model_server_config_pb2.ModelConfig]) -> None:
    seen = set()
    for model in models:
        if model.name in seen:
            raise invalid_argument(
                f"Illegal to list model {model.name} multiple times in config list"
            )
        seen.add(model.name)


def _check_platform(model: model_server_config_pb2.ModelConfig) -> None:
    deprecated = model.model_type != model_server_config_pb2.MODEL_TYPE_UNSPECIFIED
    if deprecated and model.model_platform:
        raise invalid_argument(
            "Illegal setting both ModelServerConfig::model_type (deprecated) and "
            "ModelServerConfig::model_platform."
        )
    if deprecated:
        if model.model_type != model_server_config_pb2.TENSORFLOW:
            raise invalid_argument(
                f"ModelServerConfig::model_type choice {model.model_type} not supported."
            )
        return
    if not model.model_platform:
        raise invalid_argument(
            "Illegal setting neither ModelServerConfig::model_type (deprecated) nor "
            "ModelServerConfig::model_platform."
        )
    if model.model_platform != _PLATFORM:
        raise invalid_argument(
            f"ModelServerConfig::model_platform choice {model.model_platform} not supported."
        )


def _choice(
    policy: FileSystemStoragePathSourceConfig.ServableVersionPolicy,
) -> VersionChoice:
    kind = policy.WhichOneof("policy_choice")
    if kind == "all":
        return All()
    if kind == "specific":
        return Specific(frozenset(policy.specific.versions))
    return Latest(policy.latest.num_versions)
