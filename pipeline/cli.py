"""The command `seqloom`: parses, calls, prints.

What a verb needs is imported by the verb, so that `seqloom translate --server`, which needs no
TensorFlow, starts at once.
"""

import os
import signal
import sys
from importlib import metadata
from typing import Annotated

import typer

from models.errors import UserError
from pipeline.exit_status import FAILED, MISTAKE
from pipeline.verbs import asking, jobs, serving, stages

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for verbs in (stages, jobs, serving, asking):
    app.add_typer(verbs.app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"seqloom {metadata.version('seqloom')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """From raw text to a recurrent model that answers over gRPC and REST.

    Translation, language models, classification, tagging and question answering.
    """


class _Terminated(BaseException):
    """SIGTERM, as an exception: what was begun is cleared away and workers are ended.

    It is no SystemExit, which argparse raises too and its callers take for a mistake in flags.
    """


def main() -> None:
    """Entry point; `pipeline/exit_status.py` tells how it ends."""
    signal.signal(signal.SIGTERM, _end)
    try:
        app()
    except _Terminated:
        sys.exit(128 + signal.SIGTERM)
    except UserError as error:
        _complain(str(error))
        sys.exit(MISTAKE)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except Exception as error:
        if os.environ.get("SEQLOOM_DEBUG"):
            raise
        _complain(
            f"{type(error).__name__}: {error}\n"
            f"This is a fault of the program or of the machine{_suspicion(error)}; "
            f"SEQLOOM_DEBUG=1 shows where."
        )
        sys.exit(FAILED)


def _end(number: int, _: object) -> None:
    raise _Terminated(number)


def _suspicion(error: Exception) -> str:
    if isinstance(error, OSError):
        return " (look at the path, its permissions and the space left on the disk)"
    return ""


def _complain(message: str) -> None:
    print(f"seqloom: {message}", file=sys.stderr)


if __name__ == "__main__":
    main()
