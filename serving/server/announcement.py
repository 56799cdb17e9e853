"""Tells people and programs where a server listens."""

import contextlib
import json
import os
import pathlib
from collections.abc import Iterator

from models.errors import UserError
from serving.server.options import Addresses, ServerOptions

# A program that starts the server reads the ports from the line that begins so.
ADDRESS_LINE = "seqloom-serving: "


@contextlib.contextmanager
def announced(options: ServerOptions, addresses: Addresses) -> Iterator[None]:
    """Announce a server for as long as the block runs."""
    announce(options, addresses)
    try:
        yield
    finally:
        if options.address_file:
            options.address_file.unlink(missing_ok=True)


def announce(options: ServerOptions, addresses: Addresses) -> None:
    """Write the address file, and print, or whatever `options.announce` does instead.

    Args:
        options: Say what is served, and how to tell it.
        addresses: Where the server listens.

    Raises:
        UserError: If the address file cannot be written.
    """
    if options.address_file:
        try:
            _write_whole(options.address_file, _record(options, addresses) + "\n")
        except OSError as error:
            raise UserError(
                f"address file {options.address_file}: cannot be written ({error.strerror}); name "
                f"a file in a folder that can be written to"
            ) from None
    if options.announce:
        options.announce(addresses)
    else:
        print("\n".join(_lines(options, addresses)), flush=True)


def _lines(options: ServerOptions, addresses: Addresses) -> list[str]:
    if options.on_loopback:
        reach = f"Only this machine can connect (host {options.host}); host 0.0.0.0 lets all in."
    else:
        clear = "REST is not encrypted" if options.ssl_config_file else "nothing is encrypted"
        reach = f"Other machines can connect (host {options.host}), and {clear}."
    served = f"{options.model_name} from {options.base_path}"
    if options.model_config_file:
        served = f"the models of {options.model_config_file}"
    return [
        f"Serving {served}",
        f"  gRPC  {addresses.grpc}",
        f"  REST  http://{addresses.rest}/v1/models/{_rest_name(options)}",
        reach,
        ADDRESS_LINE + _record(options, addresses),
    ]


def _record(options: ServerOptions, addresses: Addresses) -> str:
    served = {"model_name": options.model_name}
    if options.model_config_file:
        served = {"model_config_file": str(options.model_config_file)}
    return json.dumps({**served, "grpc": addresses.grpc, "rest": addresses.rest})


def _rest_name(options: ServerOptions) -> str:
    return "NAME" if options.model_config_file else options.model_name


def _write_whole(path: pathlib.Path, text: str) -> None:
    """Write beside the place and rename, so that a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    finally:
        with contextlib.suppress(OSError):  # Of which the write has told already.
            beside.unlink(missing_ok=True)
