"""The models a server holds, found by the `ModelSpec` of a request."""

import contextlib
from collections.abc import Iterator

import grpc
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
)
from tensorflow_serving.config import model_server_config_pb2

from serving.server.model_config import from_proto
from serving.server.model_manager import ModelManager
from serving.server.status import ServingError, invalid_argument
from serving.server.versions import HeldVersion, not_found

_SIGNATURE_DEF = "signature_def"


class Models:
    """Every model by name, with the questions that clients ask about them."""

    def __init__(self, manager: ModelManager):
        """Answer for the models of a manager."""
        self._manager = manager

    @contextlib.contextmanager
    def acquire(self, spec: model_pb2.ModelSpec) -> Iterator[HeldVersion]:
        """Hold the version that a request asks for, while it is answered.

        Raises:
            ServingError: If the spec names no version that answers.
        """
        number = self._number(spec)
        model = self._manager.get(spec.name)
        if model is None:
            raise not_found(spec.name, number)
        with model.acquire(number) as version:
            yield version

    def status(self, spec: model_pb2.ModelSpec) -> get_model_status_pb2.GetModelStatusResponse:
        """The state of one version, or of all, highest number first.

        A label asks for all of them, as it does of the real server.

        Raises:
            ServingError: If there is no such version.
        """
        number = spec.version.value if spec.HasField("version") else None
        model = self._manager.get(spec.name)
        versions = model.snapshot() if model else []
        if number is not None:
            versions = [version for version in versions if version.number == number]
        if not versions:
            missing = "any versions" if number is None else f"version {number}"
            raise ServingError(
                grpc.StatusCode.NOT_FOUND, f"Could not find {missing} of model {spec.name}"
            )
        response = get_model_status_pb2.GetModelStatusResponse()
        for version in versions:
            entry = response.model_version_status.add(version=version.number, state=version.state)
            entry.status.error_code = version.error.number if version.error else 0
            entry.status.error_message = version.error.message if version.error else ""
        return response

    def metadata(
        self, request: get_model_metadata_pb2.GetModelMetadataRequest
    ) -> get_model_metadata_pb2.GetModelMetadataResponse:
        """The signatures of a version.

        Raises:
            ServingError: If other metadata is asked for, or there is no such version.
        """
        _check_metadata_fields(request)
        with self.acquire(request.model_spec) as version:
            signatures = get_model_metadata_pb2.SignatureDefMap()
            for name, signature in version.session.signatures.items():
                signatures.signature_def[name].CopyFrom(signature)
            response = get_model_metadata_pb2.GetModelMetadataResponse()
            response.model_spec.name = request.model_spec.name
            response.model_spec.version.value = version.number
            response.metadata[_SIGNATURE_DEF].Pack(signatures)
            return response

    def reload(self, config: model_server_config_pb2.ModelServerConfig) -> None:
        """Serve the models of a new configuration, and no others.

        Raises:
            ServingError: If the configuration is none, or does not work.
        """
        if config.WhichOneof("config") != "model_config_list":
            raise invalid_argument(
                "ServerModelConfig type not supported by HandleReloadConfigRequest. Only "
                "ModelConfigList is currently supported"
            )
        self._manager.reload(from_proto(config))

    def _number(self, spec: model_pb2.ModelSpec) -> int | None:
        if not spec.name:
            raise invalid_argument("ModelSpec has no name specified.")
        choice = spec.WhichOneof("version_choice")
        if choice == "version_label":
            return self._manager.labelled(spec.name, spec.version_label)
        return spec.version.value if choice == "version" else None


def _check_metadata_fields(request: get_model_metadata_pb2.GetModelMetadataRequest) -> None:
    if not request.metadata_field:
        raise invalid_argument("GetModelMetadataRequest must specify at least one metadata_field")
    for field in request.metadata_field:
        if field != _SIGNATURE_DEF:
            # The placeholder stands in the real server's message too.
            raise invalid_argument(f"Metadata field %s is not supported{field}")
