"""TLS of the gRPC port, as `--ssl_config_file` describes it."""

import pathlib

import grpc

from models.errors import UserError
from serving.server.text_config import SSLConfig, read_text_proto


def server_credentials(path: pathlib.Path) -> grpc.ServerCredentials:
    """Read an `SSLConfig`.

    Args:
        path: The file. Key and certificates stand in it whole, in PEM format.

    Raises:
        UserError: If it cannot be read, or something is missing in it.
    """
    config = read_text_proto("--ssl_config_file", path, SSLConfig)
    needed = ["server_key", "server_cert"] + ["custom_ca"] * config.client_verify
    missing = [name for name in needed if not getattr(config, name)]
    if missing:
        raise UserError(
            f"--ssl_config_file: {path}: {missing[0]} is empty; it takes the text of a PEM file"
        )
    return grpc.ssl_server_credentials(
        [(config.server_key.encode(), config.server_cert.encode())],
        config.custom_ca.encode() or None,
        config.client_verify,
    )
