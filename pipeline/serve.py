"""The stage that serves an experiment's exports, without TensorFlow in its own process."""

import dataclasses
import pathlib
from typing import Any

from models.errors import UserError
from pipeline.experiment import Experiment, ServingSection
from pipeline.places import Place, UrlPath
from pipeline.versions import newest_version
from pipeline.workspace import Workspace
from serving.server.engine import serve
from serving.server.options import ServerOptions, Value
from serving.server.url_folder import (
    URL_POLL_SECONDS,
    URL_RETRIES,
    URL_RETRY_SECONDS,
    check_served,
    folder_of,
)
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
    base = workspace.export / experiment.export.model_name
    if isinstance(base, UrlPath):
        check_served(str(base), "workspace")
    newest_version(base)  # Without one, the server would wait for it.
    options = experiment.serving
    served: dict[str, Any] = {**flags}
    return _serve(
        dataclasses.replace(
            ServerOptions(
                model_name=experiment.export.model_name,
                base_path=folder_of(str(base)),
                host=options.host,
                port=options.port,
                rest_api_port=options.rest_api_port,
                threads=options.threads,
                intra_op_threads=experiment.cluster.intra_op_threads,
                inter_op_threads=experiment.cluster.inter_op_threads,
                address_file=address_file,
                **_looks(options, base),
            ),
            **served,
        ),
        options.engine,
        playground_port,
    )


def _looks(options: ServingSection, base: Place) -> dict[str, Any]:
    """How often versions are looked for, and tried.

    At a URL each look is paid for, and TensorFlow Serving sees a version before all of it is there.
    """
    wait = "file_system_poll_wait_seconds"
    if not isinstance(base, UrlPath):
        return {wait: options.file_system_poll_wait_seconds}
    given = wait in options.model_fields_set
    return {
        wait: options.file_system_poll_wait_seconds if given else URL_POLL_SECONDS,
        "max_num_load_retries": URL_RETRIES,
        "load_retry_interval_seconds": URL_RETRY_SECONDS,
    }


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
