"""`seqloom translate`: standard input to standard output, by a server or by a model here."""

import contextlib
import pathlib
import sys
from collections.abc import Iterator, Sequence

from models.errors import UserError
from serving import signatures
from serving.client import Client, ServerFailure
from serving.server.version_folders import latest, versions_on_disk
from serving.translate import Translates, translate_stream

_THIS_MACHINE = "127.0.0.1"


def translate_standard_input(
    server: str,
    rest: bool,
    model: pathlib.Path | None,
    model_name: str,
    batch_size: int,
    timeout: float,
) -> None:
    """Translate line by line.

    Args:
        server: `host:port`; the API's usual port of this machine if empty.
        rest: Ask over REST, not gRPC.
        model: An exported model to use in place of a server, or None.
        model_name: Name the server knows the model by.
        batch_size: Sentences a request.
        timeout: Seconds a request may take.

    Raises:
        UserError: If there is no such server or model.
        SystemExit: With status 1, if the server fails.
    """
    for name, stream in (("input", sys.stdin), ("output", sys.stdout)):
        if stream is None:
            raise UserError(f"standard {name} is closed; give it a file or a pipe")
    protocol = "rest" if rest else "grpc"
    with contextlib.ExitStack() as stack:
        translator: Translates
        if model is not None:
            translator = stack.enter_context(_local(model))
        else:
            target = server or _THIS_MACHINE
            translator = stack.enter_context(
                Client(target, protocol, model_name, timeout, batch_size)
            )
        try:
            translate_stream(translator, sys.stdin.buffer, sys.stdout.buffer, batch_size)
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

        version = _version_folder(folder)
        try:
            self._session = SavedModelSession(version)
        except ServingError as error:
            raise UserError(f"--model {version}: cannot be loaded: {error}") from None

    def translate(self, texts: Sequence[str]) -> list[str]:
        """Translate texts, one answer each."""
        import numpy as np

        signature = self._session.signatures[signatures.TRANSLATE.name]
        [translations] = self._session.run(
            {
                signature.inputs[signatures.TEXT].name: np.array(
                    [text.encode() for text in texts], object
                )
            },
            [signature.outputs[signatures.TRANSLATION].name],
        )
        return [text.decode("utf-8", "replace") for text in translations]

    def close(self) -> None:
        """Give the model's memory back."""
        self._session.close()


@contextlib.contextmanager
def _local(folder: pathlib.Path) -> Iterator[LocalModel]:
    model = LocalModel(folder)
    try:
        yield model
    finally:
        model.close()


def _version_folder(folder: pathlib.Path) -> pathlib.Path:
    """The newest version below a folder: of a version, of a model, or of the only model."""
    if not folder.is_dir():
        raise UserError(
            f"--model {folder}: no such folder; give the one that `seqloom export` told"
        )
    if (folder / "saved_model.pb").exists():
        return folder
    models = [each for each in folder.iterdir() if each.is_dir()]
    for place in [folder, *(models if len(models) == 1 else [])]:
        if newest := latest(versions_on_disk(place)):
            return next(iter(newest.values()))
    raise UserError(
        f"--model {folder}: holds neither a saved_model.pb nor version folders; give the folder "
        f"that `seqloom export` told"
    )
