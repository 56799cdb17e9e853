"""Verbs that serve, here or elsewhere."""

import pathlib
import sys
from typing import Annotated

import typer

from models.errors import UserError
from pipeline.verbs.options import (
    NOTHING,
    ExperimentFile,
    Overrides,
    console,
    example,
    load,
    quiet_tensorflow,
)

app = typer.Typer()

PlaygroundPort = Annotated[
    int, typer.Option(min=0, max=65535, help="Port of the web page; 0 takes a free one.")
]


@app.command(
    epilog=example("seqloom serve configs/demo.yaml --port 8500 --rest-api-port 8501"),
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def serve(
    context: typer.Context,
    experiment: Annotated[
        str | None,
        typer.Argument(
            metavar="[EXPERIMENT.yaml | FOLDER] [--FLAG=VALUE]...",
            help="The experiment, or an export's folder, and flags of TensorFlow Serving; or such "
            "flags alone.",
        ),
    ] = None,
    overrides: Overrides = NOTHING,
    engine: Annotated[
        str | None, typer.Option(help="auto, embedded or tensorflow; the experiment's if left out.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to bind to.")] = None,
    port: Annotated[int | None, typer.Option(help="gRPC; 0 takes a free one.")] = None,
    rest_api_port: Annotated[
        int | None,
        typer.Option("--rest-api-port", "--rest_api_port", help="REST; 0 takes a free one."),
    ] = None,
    address_file: Annotated[
        pathlib.Path | None, typer.Option(help="Written, as JSON, once both ports answer.")
    ] = None,
    playground: Annotated[
        bool, typer.Option("--playground", help="Serve a web page to try the model on, too.")
    ] = False,
    playground_port: PlaygroundPort = 8502,
    version: Annotated[
        bool, typer.Option("--version", help="Tell the versions of the server, and end.")
    ] = False,
) -> None:
    """Serve the newest exported version, and newer ones as they appear."""
    page = playground_port if playground else None
    options = {"engine": engine, "host": host, "port": port, "rest_api_port": rest_api_port}
    given = [f"serving.{key}={value}" for key, value in options.items() if value is not None]
    from pipeline.serve import serve_flags, serve_folder, serve_stage
    from serving.server.engine import find_program, versions
    from serving.server.flags import parse

    if version:
        console().print(versions(engine or "auto"), end="")
        return

    # A flag that stands where the experiment might have stood is no experiment.
    words = [*([experiment] if experiment else []), *context.args]
    flags = parse([word for word in words if word.startswith("-")])
    files = [word for word in words if not word.startswith("-")]
    if len(files) > 1:
        raise UserError(f"{files[1]}: unexpected; flags take the form --flag=value")
    folder = pathlib.Path(files[0]) if files else None
    if not folder or folder.is_dir():
        if overrides:
            raise UserError("--set changes an experiment, and none was given")
        here = {"host": host, "port": port, "rest_api_port": rest_api_port}
        flags |= {key: value for key, value in here.items() if value is not None}
        if address_file is not None:
            flags["address_file"] = address_file
        if not find_program(engine or "auto"):
            quiet_tensorflow()
        if folder:
            sys.exit(serve_folder(folder, flags, engine or "auto", page))
        sys.exit(serve_flags(flags, engine or "auto", page))
    loaded, workspace = load(files[0], [*overrides, *given])
    if not find_program(loaded.serving.engine):
        quiet_tensorflow()
    sys.exit(serve_stage(loaded, workspace, address_file, flags, page))


@app.command(epilog=example("seqloom deploy configs/demo.yaml --target kubernetes"))
def deploy(
    experiment: ExperimentFile,
    target: Annotated[str, typer.Option(help="docker or kubernetes.")],
    out: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Folder to write; deploy/TARGET in the workspace."),
    ] = None,
    overrides: Overrides = NOTHING,
) -> None:
    """Write a folder that runs the newest export in TensorFlow Serving 2.20."""
    from pipeline.deploy import deploy as stage
    from pipeline.places import no_url, place

    folder = no_url(place(out), "no command is given its files", "--out") if out else None
    stage(*load(experiment, overrides), target, folder, console())


@app.command(epilog=example("seqloom playground --server localhost:8501"))
def playground(
    server: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="REST port of the server to ask.")
    ] = "127.0.0.1:8501",
    model_name: Annotated[str, typer.Option(help="The model asked for first.")] = "translation",
    host: Annotated[str, typer.Option(help="Address to bind to.")] = "127.0.0.1",
    port: PlaygroundPort = 8502,
) -> None:
    """Open a web page to try a served model on, TensorFlow Serving's too."""
    from pipeline.playground import run_playground

    sys.exit(run_playground(server, model_name, host, port))
