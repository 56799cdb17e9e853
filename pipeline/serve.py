"""The stage that serves an experiment's exports, without TensorFlow in its own process."""

import pathlib

from models.errors import UserError
from pipeline.experiment import Experiment
from pipeline.workspace import Workspace
from serving.server.engine import serve
from serving.server.options import ServerOptions
from serving.server.version_folders import versions_on_disk


def serve_stage(
    experiment: Experiment, workspace: Workspace, address_file: pathlib.Path | None
) -> int:
    """Serve an experiment's exports until told to stop.

    Args:
        experiment: The experiment.
        workspace: Its workspace.
        address_file: Written once both ports answer; None for none.

    Returns:
        The server's exit status.

    Raises:
        UserError: If nothing was exported yet, or the server cannot be started so.
    """
    base = workspace.export / experiment.export.model_name
    if not base.is_dir() or not versions_on_disk(base):
        raise UserError(f"{base}: no exported version yet; run `seqloom export` first")
    options = experiment.serving
    return serve(
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
        options.engine,
    )
