"""Chooses how a client reaches its server."""

import urllib.parse

from models.errors import UserError
from serving.grpc_transport import AsyncGrpcTransport, GrpcTransport
from serving.rest_transport import AsyncRestTransport, RestTransport
from serving.transport import AsyncTransport, Transport

TRANSPORTS = {"grpc": GrpcTransport, "rest": RestTransport}
ASYNC_TRANSPORTS = {"grpc": AsyncGrpcTransport, "rest": AsyncRestTransport}
DEFAULT_PORTS = {"grpc": 8500, "rest": 8501}


def connect(target: str, protocol: str, model_name: str) -> Transport:
    """Choose the transport.

    Args:
        target: `host:port` or `host`; for REST also a URL; for gRPC also `unix:PATH`.
        protocol: `grpc` or `rest`.
        model_name: The model of every call.

    Raises:
        UserError: If the target is no address, or not one for that protocol, or the model's name
            cannot be one.
    """
    address = checked(target, protocol, model_name)
    return TRANSPORTS[protocol](address, model_name)


def connect_async(target: str, protocol: str, model_name: str) -> AsyncTransport:
    """Choose the transport, on the event loop that will be used; otherwise as `connect`.

    Args:
        target: The address, as `checked` gives it.
        protocol: `grpc` or `rest`.
        model_name: The model of every call.
    """
    return ASYNC_TRANSPORTS[protocol](target, model_name)


def checked(target: str, protocol: str, model_name: str) -> str:
    """The address with its port; for REST a URL.

    Args:
        target: As `connect` takes it.
        protocol: `grpc` or `rest`.
        model_name: The model of every call.

    Raises:
        UserError: As `connect` does.
    """
    if protocol not in TRANSPORTS:
        raise UserError(f"protocol {protocol!r}: must be one of {', '.join(TRANSPORTS)}")
    if not model_name or not _is_unicode(model_name):
        raise UserError(
            f"model name {model_name!r}: must be UTF-8 and not empty. Give the name that the "
            f"model was exported under"
        )
    if "://" in target and protocol == "grpc":
        raise UserError(
            f"{target}: is a URL, and gRPC takes host:port. Give host:port, or ask by REST"
        )
    address = _with_port(target, protocol)
    return address if protocol == "grpc" or "://" in address else f"http://{address}"


def _is_unicode(text: str) -> bool:
    """Whether a text can be sent; what the command line had in other bytes cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _with_port(target: str, protocol: str) -> str:
    if target.startswith("unix:"):
        return target
    try:
        parts = urllib.parse.urlsplit(target if "://" in target else f"//{target}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not _is_unicode(host) or " " in host or parts.username or parts.query:
        raise UserError(f"{target!r}: not the address of a server. Give host:port, or host alone")
    if parts.scheme:
        return _checked_url(target, parts.scheme)
    if parts.path:
        raise UserError(f"{target!r}: an address has no path. Give host:port, or host alone")
    return f"{f'[{host}]' if ':' in host else host}:{port or DEFAULT_PORTS[protocol]}"


def _checked_url(target: str, scheme: str) -> str:
    if scheme not in ("http", "https"):
        raise UserError(f"{target!r}: the scheme {scheme} is not http or https")
    return target
