"""Verbs that ask a model, served or exported."""

from typing import Annotated

import typer

from models.errors import UserError
from pipeline.places import Place, place
from pipeline.verbs.options import NOTHING, example, quiet_tensorflow

app = typer.Typer()

Server = Annotated[str, typer.Option(metavar="HOST:PORT", help="Server to ask.")]
Rest = Annotated[bool, typer.Option("--rest", help="Ask over REST, not gRPC.")]
ExportedModel = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="An exported model to use in place of a server; or its URL."),
]
ModelName = Annotated[
    str, typer.Option(help="Name the model is served under, the experiment's export.model_name.")
]
Timeout = Annotated[float, typer.Option(min=0.001, help="Seconds a request may take.")]


@app.command(
    epilog=example("seqloom translate --server 127.0.0.1:8500 < source.txt > translations.txt")
)
def translate(
    server: Server = "",
    rest: Rest = False,
    model: ExportedModel = None,
    model_name: ModelName = "translation",
    batch_size: Annotated[int, typer.Option(min=1, help="Sentences a request.")] = 32,
    timeout: Timeout = 60.0,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="How every translation is to begin.")
    ] = "",
) -> None:
    """Translate standard input to standard output, a line in, a line out."""
    _refuse_two_places(server, rest, model)
    from pipeline.translate import translate_standard_input

    translate_standard_input(server, rest, _place(model), model_name, batch_size, timeout, prefix)


@app.command(
    epilog=example(
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
    ] = NOTHING,
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
    generate_texts(
        prompts, generation, server, rest, _place(model), model_name, batch_size, timeout
    )


@app.command(
    epilog=example(
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
        signature, input_name, is_json, server, rest, _place(model), model_name, batch_size, timeout
    )


@app.command(epilog=example("seqloom caption --server 127.0.0.1:8500 photo.jpg other.png"))
def caption(
    pictures: Annotated[list[str], typer.Argument(help="Files to caption, or their URLs.")],
    server: Server = "",
    rest: Rest = False,
    model: ExportedModel = None,
    model_name: ModelName = "captioning",
    batch_size: Annotated[int, typer.Option(min=1, help="Pictures a request.")] = 8,
    timeout: Timeout = 60.0,
    save_attention: Annotated[
        str | None,
        typer.Option(help="Folder for pictures of where each word looked.", metavar="FOLDER"),
    ] = None,
) -> None:
    """Caption pictures: a line with the file and its caption for each."""
    _refuse_two_places(server, rest, model)
    from pipeline.caption import caption_files

    files = [place(each) for each in pictures]
    drawings = _place(save_attention)
    caption_files(files, server, rest, _place(model), model_name, batch_size, timeout, drawings)


@app.command(epilog=example("seqloom read-lips --server 127.0.0.1:8500 clip.mpg frames/"))
def read_lips(
    clips: Annotated[
        list[str],
        typer.Argument(help="Videos, and folders of frames, or their URLs.", metavar="CLIPS"),
    ],
    server: Server = "",
    rest: Rest = False,
    model: ExportedModel = None,
    model_name: ModelName = "lip-reading",
    max_frames: Annotated[int, typer.Option(min=1, help="Frames sent of a clip at most.")] = 1000,
    timeout: Timeout = 60.0,
) -> None:
    """Read lips: a line with the clip and what is said in it for each."""
    _refuse_two_places(server, rest, model)
    from pipeline import lips

    paths = [place(each) for each in clips]
    lips.read_lips(paths, server, rest, _place(model), model_name, max_frames, timeout)


def _place(text: str | None) -> Place | None:
    return None if text is None else place(text)


def _refuse_two_places(server: str, rest: bool, model: str | None) -> None:
    """Hold a command that asks a model to one place of it; one here needs TensorFlow."""
    if model is not None and server:
        raise UserError("--model and --server were both given; keep one of the two")
    if model is not None and rest:
        raise UserError("--rest asks a server, and --model needs none; keep one of the two")
    if model is not None:
        quiet_tensorflow()
