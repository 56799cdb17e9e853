"""The command `seqloom`: parses, calls, prints.

What a verb needs is imported by the verb, so that `seqloom translate --server`, which needs no
TensorFlow, starts at once.
"""

import os
import pathlib
import signal
import sys
from importlib import metadata
from typing import TYPE_CHECKING, Annotated

import rich.console
import typer

from models.errors import UserError

if TYPE_CHECKING:
    from pipeline.experiment import Experiment
    from pipeline.workspace import Workspace

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


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


ExperimentFile = Annotated[
    pathlib.Path, typer.Argument(metavar="EXPERIMENT.yaml", help="The experiment.")
]
Overrides = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="SECTION.KEY=VALUE",
        help="Override a key of the experiment; may stand many times.",
    ),
]
Server = Annotated[str, typer.Option(metavar="HOST:PORT", help="Server to ask.")]
Rest = Annotated[bool, typer.Option("--rest", help="Ask over REST, not gRPC.")]
ExportedModel = Annotated[
    pathlib.Path | None,
    typer.Option(metavar="DIR", help="An exported model to use in place of a server."),
]
ModelName = Annotated[
    str, typer.Option(help="Name the model is served under, the experiment's export.model_name.")
]
Timeout = Annotated[float, typer.Option(min=0.001, help="Seconds a request may take.")]
_NOTHING: list[str] = []


def _example(command: str) -> str:
    return f"Example: {command}"


class _Terminated(BaseException):
    """SIGTERM, as an exception: what was begun is cleared away and workers are ended.

    It is no SystemExit, which argparse raises too and its callers take for a mistake in flags.
    """


def main() -> None:
    """Entry point. Exit status 0 done, 1 failed, 2 the user's mistake."""
    signal.signal(signal.SIGTERM, _end)
    try:
        app()
    except _Terminated:
        sys.exit(128 + signal.SIGTERM)
    except UserError as error:
        _complain(str(error))
        sys.exit(2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        if os.environ.get("SEQLOOM_DEBUG"):
            raise
        _complain(
            f"{type(error).__name__}: {error}\n"
            f"This is a fault of the program or of the machine{_suspicion(error)}; "
            f"SEQLOOM_DEBUG=1 shows where."
        )
        sys.exit(1)


def _end(number: int, _: object) -> None:
    raise _Terminated(number)


def _suspicion(error: Exception) -> str:
    if isinstance(error, OSError):
        return " (look at the path, its permissions and the space left on the disk)"
    return ""


@app.command(epilog=_example("seqloom prepare configs/demo.yaml -- --direct_num_workers=4"))
def prepare(
    experiment: ExperimentFile,
    beam_flags: Annotated[
        list[str],
        typer.Argument(
            metavar="[-- BEAM FLAGS]", help="Passed to Beam, in place of the section cluster."
        ),
    ] = _NOTHING,
    overrides: Overrides = _NOTHING,
) -> None:
    """Turn corpora into records and vocabularies, by Beam."""
    from pipeline.experiment_file import beam_overrides
    from pipeline.prepare.run import prepare as stage

    stage(*_load(experiment, [*overrides, *beam_overrides(beam_flags)]), _console())


@app.command(epilog=_example("seqloom train configs/demo.yaml --set train.batch_tokens=4096"))
def train(experiment: ExperimentFile, overrides: Overrides = _NOTHING) -> None:
    """Train, or go on training from the last checkpoint."""
    _quiet_tensorflow()
    from pipeline.stages import train_stage

    train_stage(*_load(experiment, overrides), _console())


@app.command(epilog=_example("seqloom evaluate configs/demo.yaml --set search.beam_size=8"))
def evaluate(experiment: ExperimentFile, overrides: Overrides = _NOTHING) -> None:
    """Answer the test split with the best model and score the answers."""
    _quiet_tensorflow()
    from pipeline.evaluate import evaluate as stage

    stage(*_load(experiment, overrides), _console())


@app.command(epilog=_example("seqloom export configs/demo.yaml"))
def export(experiment: ExperimentFile, overrides: Overrides = _NOTHING) -> None:
    """Write the best model as the next version of a servable."""
    _quiet_tensorflow()
    from pipeline.export import export as stage

    stage(*_load(experiment, overrides), _console())


@app.command(epilog=_example("seqloom run configs/demo.yaml"))
def run(experiment: ExperimentFile, overrides: Overrides = _NOTHING) -> None:
    """Prepare, train, evaluate and export, leaving out what is up to date."""
    _quiet_tensorflow()
    from pipeline.stages import run_stages

    run_stages(*_load(experiment, overrides), _console())


@app.command(
    epilog=_example("seqloom serve configs/demo.yaml --port 8500 --rest-api-port 8501"),
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def serve(
    context: typer.Context,
    experiment: Annotated[
        pathlib.Path | None,
        typer.Argument(
            metavar="[EXPERIMENT.yaml] [--FLAG=VALUE]...",
            help="The experiment, and flags of TensorFlow Serving; or such flags alone.",
        ),
    ] = None,
    overrides: Overrides = _NOTHING,
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
) -> None:
    """Serve the newest exported version, and newer ones as they appear."""
    options = {"engine": engine, "host": host, "port": port, "rest_api_port": rest_api_port}
    given = [f"serving.{key}={value}" for key, value in options.items() if value is not None]
    from pipeline.serve import serve_flags, serve_stage
    from serving.server.engine import find_program
    from serving.server.flags import parse

    # A flag that stands where the experiment might have stood is no experiment.
    words = [*([str(experiment)] if experiment else []), *context.args]
    flags = parse([word for word in words if word.startswith("-")])
    files = [word for word in words if not word.startswith("-")]
    if len(files) > 1:
        raise UserError(f"{files[1]}: unexpected; flags take the form --flag=value")
    if not files:
        if overrides:
            raise UserError("--set changes an experiment, and none was given")
        here = {"host": host, "port": port, "rest_api_port": rest_api_port}
        flags |= {key: value for key, value in here.items() if value is not None}
        if address_file is not None:
            flags["address_file"] = address_file
        if not find_program(engine or "auto"):
            _quiet_tensorflow()
        sys.exit(serve_flags(flags, engine or "auto"))
    loaded, workspace = _load(pathlib.Path(files[0]), [*overrides, *given])
    if not find_program(loaded.serving.engine):
        _quiet_tensorflow()
    sys.exit(serve_stage(loaded, workspace, address_file, flags))


@app.command(
    epilog=_example("seqloom translate --server 127.0.0.1:8500 < source.txt > translations.txt")
)
def translate(
    server: Server = "",
    rest: Rest = False,
    model: ExportedModel = None,
    model_name: ModelName = "translation",
    batch_size: Annotated[int, typer.Option(min=1, help="Sentences a request.")] = 32,
    timeout: Timeout = 60.0,
) -> None:
    """Translate standard input to standard output, a line in, a line out."""
    _refuse_two_places(server, rest, model)
    from pipeline.translate import translate_standard_input

    translate_standard_input(server, rest, model, model_name, batch_size, timeout)


@app.command(
    epilog=_example(
        "seqloom generate --server 127.0.0.1:8500 --model-name lm-shakespeare "
        '--prompt "ROMEO:" --temperature 0.8'
    )
)
def generate(
    prompts: Annotated[
        list[str],
        typer.Option(
            "--prompt",
            metavar="TEXT",
            help="How a text begins; may stand many times. Lines of standard input if left out.",
        ),
    ] = _NOTHING,
    max_tokens: Annotated[int, typer.Option(help="Pieces to add at most.")] = 200,
    temperature: Annotated[
        float, typer.Option(help="Divides logits; 0 takes the likeliest piece.")
    ] = 1.0,
    top_k: Annotated[int, typer.Option(help="Likeliest pieces drawn from; 0 for all.")] = 0,
    top_p: Annotated[
        float, typer.Option(help="Joint probability of the likeliest pieces drawn from.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="Of the draws; the same seed, the same text.")] = 1,
    server: Server = "",
    rest: Rest = False,
    model: ExportedModel = None,
    model_name: ModelName = "translation",
    batch_size: Annotated[int, typer.Option(min=1, help="Prompts a request.")] = 32,
    timeout: Timeout = 60.0,
) -> None:
    """Let a language model go on with texts."""
    _refuse_two_places(server, rest, model)
    from pipeline.generate import generate_texts
    from serving.generation import Generation

    generation = Generation(max_tokens, temperature, top_k, top_p, seed)
    generate_texts(prompts, generation, server, rest, model, model_name, batch_size, timeout)


@app.command(
    epilog=_example(
        "seqloom predict --server 127.0.0.1:8500 --model-name tagger < sentences.txt > tags.jsonl"
    )
)
def predict(
    signature: Annotated[
        str, typer.Option(metavar="NAME", help="Signature to ask.")
    ] = "serving_default",
    input_name: Annotated[
        str, typer.Option("--input", metavar="NAME", help="Input that a line is.")
    ] = "text",
    is_json: Annotated[
        bool, typer.Option("--json", help="Lines are JSON objects of all inputs.")
    ] = False,
    server: Server = "",
    rest: Rest = False,
    model: ExportedModel = None,
    model_name: ModelName = "translation",
    batch_size: Annotated[int, typer.Option(min=1, help="Lines a request.")] = 32,
    timeout: Timeout = 60.0,
) -> None:
    """Ask any signature: a line of standard input in, a JSON object of its outputs out."""
    _refuse_two_places(server, rest, model)
    from pipeline.predict import predict_standard_input

    predict_standard_input(
        signature, input_name, is_json, server, rest, model, model_name, batch_size, timeout
    )


@app.command(epilog=_example("seqloom caption --server 127.0.0.1:8500 photo.jpg other.png"))
def caption(
    pictures: Annotated[list[pathlib.Path], typer.Argument(help="Files to caption.")],
    server: Server = "",
    rest: Rest = False,
    model: ExportedModel = None,
    model_name: ModelName = "captioning",
    batch_size: Annotated[int, typer.Option(min=1, help="Pictures a request.")] = 8,
    timeout: Timeout = 60.0,
) -> None:
    """Caption pictures: a line with the file and its caption for each."""
    _refuse_two_places(server, rest, model)
    from pipeline.caption import caption_files

    caption_files(pictures, server, rest, model, model_name, batch_size, timeout)


@app.command(epilog=_example("seqloom monitor configs/demo.yaml --port 6006"))
def monitor(
    experiment: ExperimentFile,
    overrides: Overrides = _NOTHING,
    host: Annotated[str, typer.Option(help="Address to bind to.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port of the page.")] = 6006,
) -> None:
    """Open TensorBoard on the run's logs."""
    from pipeline.monitor.tensorboard import open_tensorboard

    _, workspace = _load(experiment, overrides)
    sys.exit(open_tensorboard(workspace.logs, host, port))


@app.command(epilog=_example("seqloom show configs/demo.yaml --set model.cell=gru"))
def show(experiment: ExperimentFile, overrides: Overrides = _NOTHING) -> None:
    """Print the experiment with every key, defaults included."""
    from pipeline.experiment_file import dump_experiment

    typer.echo(dump_experiment(_load(experiment, overrides)[0]), nl=False)


def _refuse_two_places(server: str, rest: bool, model: pathlib.Path | None) -> None:
    """Hold a command that asks a model to one place of it; one here needs TensorFlow."""
    if model is not None and server:
        raise UserError("--model and --server were both given; keep one of the two")
    if model is not None and rest:
        raise UserError("--rest asks a server, and --model needs none; keep one of the two")
    if model is not None:
        _quiet_tensorflow()


def _load(path: pathlib.Path, overrides: list[str]) -> "tuple[Experiment, Workspace]":
    from pipeline.experiment_file import load_experiment, workspace_of

    experiment = load_experiment(path, overrides)
    return experiment, workspace_of(experiment)


def _console() -> rich.console.Console:
    """Where stages report. Piped lines are not wrapped: a reader may be a program."""
    console = rich.console.Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    return console


def _complain(message: str) -> None:
    print(f"seqloom: {message}", file=sys.stderr)


def _quiet_tensorflow() -> None:
    """Import TensorFlow with its own lines kept off the terminal; true errors are raised.

    Some of the lines are written before any setting of its logging is read, and on a machine
    without a GPU some are worded as errors.
    """
    if os.environ.get("SEQLOOM_DEBUG"):
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    standard_error = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        import tensorflow
        import tensorflow_text  # noqa: F401

        tensorflow.config.list_physical_devices()
    finally:
        os.dup2(standard_error, 2)
        os.close(standard_error)
        os.close(nowhere)


if __name__ == "__main__":
    main()
