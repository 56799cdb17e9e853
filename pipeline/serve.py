"""The stage that serves an experiment's exports, without TensorFlow in its own process."""

import dataclasses
import pathlib
from typing import Any

from models.errors import UserError
from pipeline.experiment import Experiment
from pipeline.places import no_url
from pipeline.workspace import Workspace
from serving.server.engine import serve
from serving.server.options import ServerOptions, Value
from serving.server.version_folders import versions_on_disk


def serve_stage(
    experiment: Experiment,
    workspace: Workspace,
    address_file: pathlib.Path | None,
    flags: dict[str, Value],
    playground_port: int | None = None,
) -> int:
    """Serve an experiment's exports until told to stop.

    Args:
        experiment: The experiment.
        workspace: Its workspace.
        address_file: Written once both ports answer; None for none.
        flags: Fields of `ServerOptions` that stand above the experiment's.
        playground_port: Port of a playground beside it; None for none.

    Returns:
        The server's exit status.

    Raises:
        UserError: If nothing was exported yet, or the server cannot be started so.
    """
    _refuse_models("an experiment", flags)
    base = no_url(
        workspace.export / experiment.export.model_name,
        "the embedded server finds no versions (TensorFlow Serving does, by --model_base_path)",
        "workspace",
    )
    if not base.is_dir() or not versions_on_disk(base):
        raise UserError(f"{base}: no exported version yet; run `seqloom export` first")
    options = experiment.serving
    served: dict[str, Any] = {**flags}
    return _serve(
        dataclasses.replace(
            ServerOptions(
                model_name=experiment.export.model_name,
                base_path=base,
                host=options.host,
                port=options.port,
                rest_api_port=options.rest_api_port,
                file_system_poll_wait_seconds=options.file_system_poll_wait_seconds,
                threads=options.threads,
                intra_op_threads=experiment.cluster.intra_op_threads,
                inter_op_threads=experiment.cluster.inter_op_threads,
                address_file=address_file,
            ),
            **served,
        ),
        options.engine,
        playground_port,
    )


def serve_flags(flags: dict[str, Value], engine: str, playground_port: int | None = None) -> int:
    """Serve what the flags say, without an experiment, until told to stop.

    Args:
        flags: Fields of `ServerOptions`.
        engine: Name of the engine.
        playground_port: Port of a playground beside it; None for none.

    Returns:
        The server's exit status.

    Raises:
        UserError: If the server cannot be started so.
    """
    given: dict[str, Any] = {**flags}
    return _serve(ServerOptions(**given), engine, playground_port)


def serve_folder(
    folder: pathlib.Path, flags: dict[str, Value], engine: str, playground_port: int | None = None
) -> int:
    """Serve what lies in a folder of exports, until told to stop.

    Args:
        folder: A model's folder, which holds its versions; or one that holds such a folder.
        flags: Fields of `ServerOptions`.
        engine: Name of the engine.
        playground_port: Port of a playground beside it; None for none.

    Returns:
        The server's exit status.

    Raises:
        UserError: If the folder holds no model, or more than one.
    """
    _refuse_models("a folder", flags)
    base = _base_path(folder.absolute())
    given: dict[str, Any] = {"model_name": base.name, **flags}
    return _serve(ServerOptions(base_path=base, **given), engine, playground_port)


def _base_path(folder: pathlib.Path) -> pathlib.Path:
    if versions_on_disk(folder):
        return folder
    found = [one for one in sorted(folder.iterdir()) if one.is_dir() and versions_on_disk(one)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UserError(
            f"{folder}: no exported model in it; give the folder that holds its versions (1, 2, "
            "...), or the one above, or an experiment"
        )
    names = ", ".join(str(one) for one in found)
    raise UserError(
        f"{folder}: {len(found)} models in it; give the folder of one ({names}), or list several "
        "in the file of --model_config_file"
    )


def _serve(options: ServerOptions, engine: str, playground_port: int | None) -> int:
    if playground_port is None:
        return serve(options, engine)
    from pipeline.playground import serve_with_playground

    return serve_with_playground(options, engine, playground_port)


def _refuse_models(source: str, flags: dict[str, Value]) -> None:
    """An experiment serves its own exports, and a folder those in it."""
    for option, flag in (("base_path", "model_base_path"), ("model_config_file",) * 2):
        if option in flags:
            raise UserError(
                f"{source} and --{flag} were both given: keep {source}, whose own exports are "
                "served, or the flag"
            )
