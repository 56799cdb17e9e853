"""A client for models behind TensorFlow Serving or the embedded server.

Importing it takes a fraction of a second, because nothing here imports TensorFlow.
`AsyncClient` is the same for programs that run on asyncio.

Example:
    with Client("localhost:8500") as client:
        for translation in client.translate(["Guten Morgen.", "Danke."]):
            print(translation.text, translation.score)
"""

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from serving import questions
from serving.answers import Alignment, Continuation, PairScore, Translation, VersionStatus
from serving.asker import Asker
from serving.async_client import AsyncClient
from serving.conversation import ServerFailure
from serving.generation import Generation
from serving.questions import Question
from serving.translate import StreamSummary, translate_stream
from serving.transport import CallError
from serving.transports import connect

__all__ = [
    "Alignment",
    "AsyncClient",
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

Answer = TypeVar("Answer")


@dataclasses.dataclass(eq=False)
class Client(Asker):
    """Asks one server for one model.

    Texts go out in batches of at most `batch_size`, and answers come back in the order of the
    texts. A call that finds no server (`UNAVAILABLE`) is repeated a few times within its
    timeout; no other is. May be used from many threads.

    What it is told, and the defaults, are `Asker`'s.
    """

    def __post_init__(self) -> None:
        """Prepare; the connection is made by the first call."""
        super().__post_init__()
        self._transport = connect(self._conversation.address, self.protocol, self.model_name)

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
        return self._ask(questions.translations(texts))

    def nbest(self, texts: Sequence[str]) -> list[list[Translation]]:
        """Find several translations of each text, best first.

        Raises:
            UserError: If the server cannot be reached, or does not serve such a model.
            ServerFailure: If the server fails.
        """
        return self._ask(questions.nbest(texts))

    def align(self, texts: Sequence[str]) -> list[Alignment]:
        """Translate texts and tell which pieces of the source each piece attended to.

        Raises:
            UserError: If the server cannot be reached, or does not serve such a model.
            ServerFailure: If the server fails.
        """
        return self._ask(questions.alignments(texts))

    def complete(self, pairs: Sequence[tuple[str, str]]) -> list[Translation]:
        """Translate texts so that the translations begin in a given way.

        Args:
            pairs: Text and beginning of its translation, which may be empty.

        Raises:
            UserError: If the server cannot be reached, or does not serve such a model.
            ServerFailure: If the server fails.
        """
        return self._ask(questions.completions(pairs))

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
        """Score given translations.

        Args:
            pairs: Source and target of each.

        Raises:
            UserError: If the server cannot be reached, or does not serve such a model.
            ServerFailure: If the server fails.
        """
        return self._ask(questions.scores(pairs))

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
        return self._ask(questions.continuations(prompts, generation))

    def predict(
        self, inputs: Mapping[str, Sequence], signature: str = "serving_default"
    ) -> list[dict[str, Any]]:
        """Run any signature of any model.

        Args:
            inputs: Columns by name, all of one length: texts, bytes, integers or floats; or, where
                a row has many, as a clip has frames, lists of texts or bytes.
            signature: Its name.

        Returns:
            The outputs by name, a row each, in order: strings, numbers or nested lists of them.
            What has many elements is as long as in the longest row of its batch.

        Raises:
            UserError: If the inputs cannot be right, the server cannot be reached, does not serve
                such a model or refuses the inputs.
            ServerFailure: If the server fails.
        """
        return self._ask(questions.predictions(inputs, signature))

    def status(self) -> list[VersionStatus]:
        """The versions of the model that the server knows, highest number first.

        Raises:
            UserError: If the server cannot be reached, or does not know the model.
            ServerFailure: If the server fails.
        """
        return self._repeat(self._transport.status)

    def _ask(self, question: Question[Answer]) -> list[Answer]:
        """Ask batch by batch."""
        answers: list[Answer] = []
        for batch in self._conversation.batches(question):
            predict = functools.partial(self._transport.predict, batch.signature.name, batch.inputs)
            answer = self._repeat(predict, batch.signature.name)
            self._conversation.check(answer, batch)
            answers += question.read(answer)
        return answers

    def _repeat(self, call: Callable[[float], Answer], signature: str = "") -> Answer:
        """Make a call, again while no server is found and there is time."""
        attempts = self._conversation.attempts(signature)
        while True:
            try:
                return call(attempts.seconds_left)
            except CallError as error:
                pause = attempts.pause_after(error)
            time.sleep(pause)
