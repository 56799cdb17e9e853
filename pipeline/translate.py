"""`seqloom translate`: standard input to standard output, by a server or by a model here."""

import contextlib
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from models.errors import UserError
from pipeline.places import Place, UrlPath
from pipeline.versions import newest_version
from pipeline.workspace import folder_here
from serving import signatures
from serving.answers import Continuation
from serving.client import Client, ServerFailure
from serving.generation import Generation, generation_columns
from serving.rows import is_row, padded_rows
from serving.server.url_folder import MODEL_FILE
from serving.server.version_folders import latest, versions_on_disk
from serving.translate import Completes, Translate, translate_stream

THIS_MACHINE = "127.0.0.1"


def translate_standard_input(
    server: str,
    rest: bool,
    model: Place | None,
    model_name: str,
    batch_size: int,
    timeout: float,
    prefix: str = "",
) -> None:
    """Translate line by line.

    Args:
        server: `host:port`; the API's usual port of this machine if empty.
        rest: Ask over REST, not gRPC.
        model: An exported model, in a folder or at a URL, to use in place of a server, or None.
        model_name: Name the server knows the model by.
        batch_size: Sentences a request.
        timeout: Seconds a request may take.
        prefix: How every translation is to begin; free if empty.

    Raises:
        UserError: If there is no such server or model, or one that cannot take a prefix.
        SystemExit: With status 1, if the server fails.
    """
    check_streams("input", "output")
    _check_prefix(prefix)
    with asked_model(server, rest, model, model_name, batch_size, timeout) as translator:
        translate = _beginning_with(translator, prefix) if prefix else translator
        translate_stream(translate, sys.stdin.buffer, sys.stdout.buffer, batch_size)


def check_streams(*names: Literal["input", "output"]) -> None:
    """Refuse to go on without standard streams that a command needs."""
    streams = {"input": sys.stdin, "output": sys.stdout}
    for name in names:
        if streams[name] is None:
            raise UserError(f"standard {name} is closed; give it a file or a pipe")


def _check_prefix(prefix: str) -> None:
    try:
        prefix.encode("utf-8")
    except UnicodeEncodeError:
        raise UserError(f"--prefix {prefix!r}: not UTF-8; give it text in UTF-8") from None


def _beginning_with(translator: Completes, prefix: str) -> Translate:
    """A function that translates texts so that all translations begin in one way."""
    return lambda texts: translator.complete([(text, prefix) for text in texts])


@contextlib.contextmanager
def asked_model(
    server: str,
    rest: bool,
    model: Place | None,
    model_name: str,
    batch_size: int,
    timeout: float,
) -> "Iterator[Client | LocalModel]":
    """What a command asks, closed in the end; arguments as of `translate_standard_input`.

    Raises:
        UserError: If there is no such server or model.
        SystemExit: With status 1, if the server fails.
    """
    protocol = "rest" if rest else "grpc"
    with contextlib.ExitStack() as stack:
        asked: Client | LocalModel = (
            Client(server or THIS_MACHINE, protocol, model_name, timeout, batch_size)
            if model is None
            else LocalModel(stack.enter_context(folder_here(_version_at_url(model))))
        )
        stack.callback(asked.close)
        try:
            yield asked
        except ServerFailure as error:
            print(f"seqloom: {error}", file=sys.stderr)
            raise SystemExit(1) from None


class LocalModel:
    """An exported model in this process, run as a server would run it.

    Args:
        folder: A version folder, or one that holds version folders; the newest is taken.

    Raises:
        UserError: If there is no model in it, or one that cannot be loaded.
    """

    def __init__(self, folder: pathlib.Path):
        from serving.server.saved_model import SavedModelSession
        from serving.server.status import ServingError

        self._version = _version_folder(folder)
        try:
            self._session = SavedModelSession(self._version)
        except ServingError as error:
            raise UserError(f"--model {self._version}: cannot be loaded: {error}") from None

    def translate(self, texts: Sequence[str]) -> list[str]:
        """Translate texts, one answer each."""
        answer = self._ask(signatures.TRANSLATE, {signatures.TEXT: texts})
        return [text.decode("utf-8", "replace") for text in answer[signatures.TRANSLATION]]

    def complete(self, pairs: Sequence[tuple[str, str]]) -> list[str]:
        """Translate texts, each with the beginning of its translation, one answer each."""
        texts, prefixes = [text for text, _ in pairs], [prefix for _, prefix in pairs]
        columns = {signatures.TEXT: texts, signatures.PREFIX: prefixes}
        answer = self._ask(signatures.COMPLETE, columns)
        return [text.decode("utf-8", "replace") for text in answer[signatures.TRANSLATION]]

    def generate(self, prompts: Sequence[str], generation: Generation) -> list[Continuation]:
        """Go on with texts, one continuation each."""
        answer = self._ask(signatures.GENERATE, generation_columns(prompts, generation))
        rows = zip(*(answer[name] for name in signatures.GENERATE.output_names), strict=True)
        return [
            Continuation(text.decode("utf-8", "replace"), float(score), int(tokens))
            for text, score, tokens in rows
        ]

    def predict(
        self, inputs: Mapping[str, Sequence], signature: str = "serving_default"
    ) -> list[dict[str, Any]]:
        """Run any signature; arguments and answers are those of `Client.predict`."""
        import tensorflow as tf

        known = self._session.signatures.get(signature)
        if known is None:
            # TensorFlow's own begin with underscores.
            own = (name for name in self._session.signatures if not name.startswith("_"))
            names = ", ".join(sorted(own))
            raise UserError(
                f"--model {self._version}: has no signature {signature!r}; expected one of {names}"
            )
        if set(known.inputs) != set(inputs):
            raise UserError(
                f"--model {self._version}: the signature {signature!r} was given "
                f"{', '.join(inputs)}, and takes {', '.join(sorted(known.inputs))}"
            )
        dtypes = {name: tf.dtypes.as_dtype(info.dtype) for name, info in known.inputs.items()}
        feeds = {
            known.inputs[name].name: _column(column, dtypes[name].as_numpy_dtype, name)
            for name, column in inputs.items()
        }
        found = self._run(feeds, [info.name for info in known.outputs.values()])
        columns = [_plain(each.tolist()) for each in found]
        return [dict(zip(known.outputs, row, strict=True)) for row in zip(*columns, strict=True)]

    def close(self) -> None:
        """Give the model's memory back."""
        self._session.close()

    def _ask(
        self, signature: signatures.Signature, columns: Mapping[str, Sequence]
    ) -> dict[str, Any]:
        """Run a signature."""
        import numpy as np

        known = self._session.signatures.get(signature.name)
        if known is None or not (
            set(known.inputs) == set(signature.input_names)
            and set(known.outputs) >= set(signature.output_names)
        ):
            raise UserError(
                f"--model {self._version}: has no signature {signature.name!r} from "
                f"{', '.join(signature.input_names)} to {', '.join(signature.output_names)}; give "
                f"the export of another task's model, or ask this one by `seqloom predict`"
            )
        feeds = {}
        for field in signature.inputs:
            column = columns[field.name]
            values = (
                np.array([text.encode("utf-8", "replace") for text in column], object)
                if field.dtype == "string"
                else np.array(column, field.dtype)
            )
            feeds[known.inputs[field.name].name] = values
        names = [known.outputs[name].name for name in signature.output_names]
        return dict(zip(signature.output_names, self._run(feeds, names), strict=True))

    def _run(self, feeds: Mapping[str, Any], fetches: Sequence[str]) -> list[Any]:
        from serving.server.status import ServingError

        try:
            return self._session.run(feeds, fetches)
        except ServingError as error:
            raise UserError(f"--model {self._version}: {error}") from None


def _column(values: Sequence, dtype: Any, name: str) -> Any:
    """An array [B] of texts, bytes or numbers, or [B, F] of texts or bytes."""
    import numpy as np

    if any(map(is_row, values)):
        return np.array(padded_rows(name, values), object)
    takes_text = np.dtype(dtype) == np.dtype(object)
    wanted = "strings" if takes_text else f"numbers ({np.dtype(dtype).name})"
    problem = f"the input {name!r} takes {wanted}, and was given another value"
    if any(isinstance(value, (str, bytes)) != takes_text for value in values):
        raise UserError(problem)
    if not takes_text:
        # NumPy would cut a fraction off.
        if np.issubdtype(dtype, np.integer) and any(isinstance(each, float) for each in values):
            raise UserError(problem)
        try:
            return np.array(values, dtype)
        except OverflowError:
            raise UserError(problem) from None
    return np.array(
        [v.encode("utf-8", "replace") if isinstance(v, str) else v for v in values], object
    )


def _plain(value: Any) -> Any:
    """Nested lists whose strings are decoded."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _version_at_url(model: Place) -> Place:
    """Of versions at a URL the newest, which alone is fetched; a folder as it is."""
    if not isinstance(model, UrlPath) or (model / MODEL_FILE).is_file():
        return model
    return model / str(newest_version(model))


def _version_folder(folder: pathlib.Path) -> pathlib.Path:
    """The newest version below a folder: of a version, of a model, or of the only model."""
    if not folder.is_dir():
        raise UserError(
            f"--model {folder}: no such folder; give the one that `seqloom export` told"
        )
    if (folder / MODEL_FILE).exists():
        return folder
    models = [each for each in folder.iterdir() if each.is_dir()]
    for place in [folder, *(models if len(models) == 1 else [])]:
        if newest := latest(versions_on_disk(place)):
            return next(iter(newest.values()))
    raise UserError(
        f"--model {folder}: holds neither a saved_model.pb nor version folders; give the folder "
        f"that `seqloom export` told"
    )
