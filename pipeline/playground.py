"""The playground beside a server: of this process, or one that runs already."""

import contextlib
import dataclasses
import threading

from models.errors import UserError
from serving.playground.server import Playground
from serving.server.announcement import announce
from serving.server.engine import PROGRAM, find_program, serve
from serving.server.options import Addresses, ServerOptions
from serving.transports import connect


def serve_with_playground(options: ServerOptions, engine: str, port: int) -> int:
    """Serve, and a playground with it.

    Args:
        options: What to serve, and where; the playground is bound to the same host.
        engine: Name of the engine.
        port: Of the playground; 0 takes a free one.

    Returns:
        The server's exit status.

    Raises:
        UserError: If the server or the playground cannot be started so.
    """
    if find_program(engine):
        raise UserError(
            f"--playground: {PROGRAM} takes the place of this process. Start the playground beside "
            f"it by `seqloom playground --server localhost:{options.rest_api_port}`, or take "
            f"--engine embedded"
        )
    with Playground(options.host, port) as playground:

        def tell(addresses: Addresses) -> None:
            playground.start(f"http://{_reachable(addresses.rest)}", options.model_name)
            print(f"Playground: http://{_reachable(playground.address)}")
            announce(dataclasses.replace(options, address_file=None), addresses)

        return serve(dataclasses.replace(options, announce=tell), "embedded")


def run_playground(server: str, model_name: str, host: str, port: int) -> int:
    """Run a playground for a server, until told to stop.

    Args:
        server: Address of its REST API, `host:port` or a URL.
        model_name: The model that the page asks for first.
        host: Address to bind to.
        port: Port of the page; 0 takes a free one.

    Returns:
        The exit status.

    Raises:
        UserError: If the address cannot be one, or the port cannot be had.
    """
    transport = connect(server, "rest", model_name)
    transport.close()  # It is asked for how it reads the address alone.
    with Playground(host, port) as playground:
        playground.start(transport.address, model_name)
        print(f"Playground: http://{_reachable(playground.address)}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
    return 0


def _reachable(address: str) -> str:
    """An address that a browser on this machine can open."""
    return address.replace("0.0.0.0:", "127.0.0.1:").replace("[::]:", "[::1]:")
