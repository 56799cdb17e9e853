"""Opens TensorBoard on a run's logs."""

import os
import threading

from models.errors import UserError
from pipeline.places import Place, UrlPath, place

_EVENT_FILES = "*events.out.tfevents*"


def open_tensorboard(
    logs_dir: str | os.PathLike | UrlPath,
    host: str = "127.0.0.1",
    port: int = 6006,
    stop: threading.Event | None = None,
) -> int:
    """Serve TensorBoard and print its address, until interrupted.

    Args:
        logs_dir: Folder or URL with event files, at any depth.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        stop: Ends the call when set; without it only an interrupt (Ctrl-C) does.

    Returns:
        Exit status, 0.

    Raises:
        UserError: If there are no logs, or the port cannot be listened on.
    """
    logs_dir = place(str(logs_dir))
    if not any(logs_dir.rglob(_EVENT_FILES)):
        raise UserError(
            f"{logs_dir}: no TensorBoard logs there. Train first, or name another run's workspace."
        )
    address = _launch(logs_dir, host, port)
    print(f"TensorBoard shows {logs_dir} at {address} (Ctrl-C ends it)", flush=True)
    try:
        (stop or threading.Event()).wait()
    except KeyboardInterrupt:
        pass
    return 0


def _launch(logs_dir: Place, host: str, port: int) -> str:
    # Imported here, since TensorBoard takes seconds to import and the check above none.
    from tensorboard import program

    tensorboard = program.TensorBoard()
    arguments = ["--logdir", str(logs_dir), "--host", host, "--port", str(port)]
    tensorboard.configure(argv=["tensorboard", *arguments])
    try:
        return tensorboard.launch()
    except program.TensorBoardServerException as error:
        raise UserError(
            f"TensorBoard cannot listen on {host}:{port}: {error.msg} "
            "Choose another with --port, or 0 for a free one."
        ) from None
