"""Taking ports, and telling plainly when one cannot be had."""

import socket

from models.errors import UserError


def bind(api: str, host: str, port: int) -> socket.socket:
    """Take a port. It refuses connections until someone listens on it.

    Args:
        api: `gRPC` or `REST`, for the message.
        host: Name or address of the interface.
        port: The port; 0 takes a free one.

    Raises:
        UserError: If the port cannot be had.
    """
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        # asyncio sends small packets at once only on sockets that know they are TCP.
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, OverflowError) as error:
        if listener:
            listener.close()
        raise cannot_be_had(api, joined(host, port), str(error)) from None
    return listener


def cannot_be_had(api: str, address: str, reason: str) -> UserError:
    """The error of a port that is taken, or of a host that is not this machine."""
    return UserError(
        f"{address}: the server cannot listen there for {api} ({reason}). Stop the program that "
        "uses the port, or choose another port (0 takes a free one) or another host"
    )


def joined(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
