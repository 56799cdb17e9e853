"""A client for models behind TensorFlow Serving or the embedded server.

Importing it takes a fraction of a second, because nothing here imports TensorFlow.

Example:
    with Client("localhost:8500") as client:
        for translation in client.translate(["Guten Morgen.", "Danke."]):
            print(translation.text, translation.score)
"""

import functools
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from models.errors import UserError
from serving import signatures
from serving.answers import Alignment, Continuation, PairScore, Translation, VersionStatus
from serving.generation import Generation, generation_columns
from serving.signatures import Signature
from serving.translate import StreamSummary, translate_stream
from serving.transport import (
    DEADLINE_EXCEEDED,
    INVALID_ARGUMENT,
    NO_SUCH_SIGNATURE,
    NOT_A_SERVER,
    NOT_FOUND,
    UNAVAILABLE,
    CallError,
    Column,
)
from serving.transports import connect

__all__ = [
    "Alignment",
    "Client",
    "Continuation",
    "Generation",
    "PairScore",
    "ServerFailure",
    "StreamSummary",
    "Translation",
    "VersionStatus",
    "translate_stream",
]

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_TIMEOUT_SECONDS = 7 * 24 * 60 * 60  # What is far longer overflows in gRPC and sockets.
_LEAST, _MOST = -(2**31), 2**31 - 1  # of an int32
_NAMES = {"grpc": "gRPC", "rest": "REST"}

Answer = TypeVar("Answer")


class ServerFailure(Exception):
    """The server answered, but with an error that nobody at the keyboard has made."""


class Client:
    """Asks one server for one model.

    Texts go out in batches of at most `batch_size`, and answers come back in the order of the
    texts. A call that finds no server (`UNAVAILABLE`) is repeated a few times within its
    timeout; no other is. May be used from many threads.
    """

    def __init__(
        self,
        target: str,
        protocol: str = "grpc",
        model_name: str = "translation",
        timeout: float = 60.0,
        batch_size: int = 32,
        retries: int = 4,
    ):
        """Prepare; the connection is made by the first call.

        Args:
            target: `host:port`, or `host` with the usual port; for REST also a URL.
            protocol: `grpc` or `rest`.
            model_name: Name under which the model is served.
            timeout: Seconds that one batch may take, its retries included.
            batch_size: Texts of one request at most.
            retries: How often a request that found no server is repeated.

        Raises:
            UserError: If an argument cannot be right.
        """
        if not 0 < timeout <= _LONGEST_TIMEOUT_SECONDS or batch_size < 1:
            raise UserError(
                f"timeout {timeout:g} and batch_size {batch_size}: both must be above 0, and the "
                f"timeout at most {_LONGEST_TIMEOUT_SECONDS} s"
            )
        self._transport = connect(target, protocol, model_name)
        self._protocol = protocol
        self._model_name = model_name
        self._timeout = timeout
        self._batch_size = batch_size
        self._retries = retries

    def __enter__(self) -> "Client":
        """The client itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def translate(self, texts: Sequence[str]) -> list[Translation]:
        """Translate texts, one answer each.

        Raises:
            UserError: If the server cannot be reached, or does not serve such a model.
            ServerFailure: If the server fails.
        """
        return [
            Translation(text, score)
            for answer in self._ask(signatures.TRANSLATE, {signatures.TEXT: texts})
            for text, score in _zipped(answer, signatures.TRANSLATION, signatures.SCORE)
        ]

    def nbest(self, texts: Sequence[str]) -> list[list[Translation]]:
        """Find several translations of each text, best first.

        Raises:
            UserError: If the server cannot be reached, or does not serve such a model.
            ServerFailure: If the server fails.
        """
        return [
            [Translation(text, score) for text, score in zip(translations, scores, strict=True)]
            for answer in self._ask(signatures.NBEST, {signatures.TEXT: texts})
            for translations, scores in _zipped(answer, signatures.TRANSLATIONS, signatures.SCORES)
        ]

    def align(self, texts: Sequence[str]) -> list[Alignment]:
        """Translate texts and tell which pieces of the source each piece attended to.

        Raises:
            UserError: If the server cannot be reached, or does not serve such a model.
            ServerFailure: If the server fails.
        """
        return [
            _alignment(*parts)
            for answer in self._ask(signatures.ALIGN, {signatures.TEXT: texts})
            for parts in _zipped(answer, *signatures.ALIGN.output_names)
        ]

    def complete(self, pairs: Sequence[tuple[str, str]]) -> list[Translation]:
        """Translate texts so that the translations begin in a given way.

        Args:
            pairs: Text and beginning of its translation, which may be empty.

        Raises:
            UserError: If the server cannot be reached, or does not serve such a model.
            ServerFailure: If the server fails.
        """
        columns = {
            signatures.TEXT: [text for text, _ in pairs],
            signatures.PREFIX: [prefix for _, prefix in pairs],
        }
        return [
            Translation(text, score)
            for answer in self._ask(signatures.COMPLETE, columns)
            for text, score in _zipped(answer, signatures.TRANSLATION, signatures.SCORE)
        ]

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
        """Score given translations.

        Args:
            pairs: Source and target of each.

        Raises:
            UserError: If the server cannot be reached, or does not serve such a model.
            ServerFailure: If the server fails.
        """
        columns = {
            signatures.SOURCE: [source for source, _ in pairs],
            signatures.TARGET: [target for _, target in pairs],
        }
        return [
            PairScore(log_probability, tokens)
            for answer in self._ask(signatures.FORCED_SCORE, columns)
            for log_probability, tokens in _zipped(
                answer, signatures.LOG_PROBABILITY, signatures.TOKENS
            )
        ]

    def generate(
        self, prompts: Sequence[str], generation: Generation | None = None
    ) -> list[Continuation]:
        """Let a language model go on with texts.

        Args:
            prompts: How each text begins; may be empty.
            generation: How words are drawn; its defaults if None.

        Raises:
            UserError: If the server cannot be reached, or does not serve such a model, or
                `generation` cannot be right.
            ServerFailure: If the server fails.
        """
        columns = generation_columns(prompts, generation or Generation())
        return [
            Continuation(text, score, tokens)
            for answer in self._ask(signatures.GENERATE, columns)
            for text, score, tokens in _zipped(answer, *signatures.GENERATE.output_names)
        ]

    def predict(
        self, inputs: Mapping[str, Sequence], signature: str = "serving_default"
    ) -> list[dict[str, Any]]:
        """Run any signature of any model.

        Args:
            inputs: Columns by name, all of one length: texts, bytes, integers or floats.
            signature: Its name.

        Returns:
            The outputs by name, a row each, in order: strings, numbers or nested lists of them.
            What has many elements is as long as in the longest row of its batch.

        Raises:
            UserError: If the inputs cannot be right, the server cannot be reached, does not serve
                such a model or refuses the inputs.
            ServerFailure: If the server fails.
        """
        sizes = {len(column) for column in inputs.values()}
        if len(sizes) != 1:
            raise UserError(
                f"signature {signature!r}: its inputs have {sorted(sizes) or 'no'} rows; give "
                f"each input as many"
            )
        rows = []
        for answer in self._ask(Signature(signature, (), ()), inputs):
            rows += [dict(zip(answer, row, strict=True)) for row in _zipped(answer, *answer)]
        return rows

    def status(self) -> list[VersionStatus]:
        """The versions of the model that the server knows, highest number first.

        Raises:
            UserError: If the server cannot be reached, or does not know the model.
            ServerFailure: If the server fails.
        """
        return self._repeat(self._transport.status, "")

    def _ask(
        self, signature: Signature, columns: Mapping[str, Sequence]
    ) -> Iterator[dict[str, list]]:
        """Run a signature batch by batch."""
        encoded = {name: _encoded(name, values) for name, values in columns.items()}
        size = len(next(iter(encoded.values())))
        for start in range(0, size, self._batch_size):
            stop = min(start + self._batch_size, size)
            batch = {name: values[start:stop] for name, values in encoded.items()}
            predict = functools.partial(self._transport.predict, signature.name, batch)
            answer = self._repeat(predict, signature.name)
            self._check(answer, signature, stop - start)
            yield answer

    def _repeat(self, call: Callable[[float], Answer], signature: str) -> Answer:
        """Make a call, again while no server is found and there is time."""
        deadline = time.monotonic() + self._timeout
        attempt = 0
        while True:
            try:
                return call(max(deadline - time.monotonic(), 0.001))
            except CallError as error:
                pause = _FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(0.75, 1.25)
                late = time.monotonic() + pause >= deadline
                if error.code != UNAVAILABLE or attempt == self._retries or late:
                    raise self._explained(error, signature) from None
            time.sleep(pause)
            attempt += 1

    def _check(self, answer: dict[str, list], signature: Signature, size: int) -> None:
        missing = [name for name in signature.output_names if name not in answer]
        if missing:
            raise UserError(
                f"{self._transport.address}: the model {self._model_name!r} gives no output "
                f"{missing[0]!r} from its signature {signature.name!r}: it is a model of another "
                "task, or not one that `seqloom export` wrote. Give another model name"
            )
        for name in signature.output_names or answer:
            if not isinstance(answer[name], list) or len(answer[name]) != size:
                raise ServerFailure(
                    f"{self._transport.address}: the output {name!r} does not have one entry for "
                    f"each of the {size} texts of the request"
                )

    def _explained(self, error: CallError, signature: str) -> Exception:
        """Say what went wrong in terms of what the user can do."""
        address, model = self._transport.address, self._model_name
        other = "gRPC" if self._protocol == "rest" else "REST"
        explanations = {
            UNAVAILABLE: f"no server answers there ({error.message}). Start one with "
            "`seqloom serve`, or give the host and port of a running one",
            NOT_A_SERVER: f"what answers there is not the {_NAMES[self._protocol]} port of a "
            f"model server ({error.message}). Is it the {other} port? Give the right port, or "
            f"ask by {other}",
            NOT_FOUND: f"the server has no model {model!r} that answers ({error.message}). Give "
            "the name it was exported under",
            NO_SUCH_SIGNATURE: f"the model {model!r} has no signature {signature!r} "
            f"({error.message}). Give another one, or export it again with `seqloom export`",
            INVALID_ARGUMENT: f"the server refuses what it was asked ({error.message}). Give the "
            f"inputs that the signature {signature!r} of the model {model!r} takes",
            DEADLINE_EXCEEDED: f"no answer within {self._timeout:g} s. Give it more time, or "
            f"send fewer than {self._batch_size} texts at once",
        }
        if error.code in explanations:
            return UserError(f"{address}: {explanations[error.code]}")
        return ServerFailure(f"{address}: {error}")


def _encoded(name: str, values: Sequence) -> Column:
    kinds = {str if isinstance(value, str) else type(value) for value in values}
    if len(kinds) > 1:
        raise UserError(
            f"the input {name!r} was given values of several types; give it strings alone, or "
            f"numbers alone"
        )
    if kinds == {int} and not (_LEAST <= min(values) and max(values) <= _MOST):
        raise UserError(
            f"the input {name!r} was given an integer beyond {_LEAST} to {_MOST}, which is all "
            f"that an int32 holds"
        )
    if kinds and kinds != {str}:
        return values
    encoded = []
    for number, text in enumerate(values, start=1):
        try:
            encoded.append(text.encode("utf-8"))
        except UnicodeEncodeError:
            raise UserError(
                f"text {number} has half of a surrogate pair, which UTF-8 cannot hold: read the "
                "texts with errors='replace'"
            ) from None
    return encoded


def _zipped(answer: dict[str, list], *names: str) -> Iterator[tuple]:
    return zip(*(answer[name] for name in names), strict=True)


def _alignment(
    text: str, source_tokens: list[str], target_tokens: list[str], weights: list[list[float]]
) -> Alignment:
    """Cut the padding off."""
    source, target = _unpadded(source_tokens), _unpadded(target_tokens)
    rows = tuple(tuple(row[: len(source)]) for row in weights[: len(target)])
    return Alignment(text, source, target, rows)


def _unpadded(tokens: list[str]) -> tuple[str, ...]:
    length = len(tokens)
    while length and not tokens[length - 1]:
        length -= 1
    return tuple(tokens[:length])
