"""The client for programs that run on asyncio.

Example:
    async with AsyncClient("localhost:8500") as client:
        for translation in await client.translate(["Guten Morgen.", "Danke."]):
            print(translation.text, translation.score)
"""

import asyncio
import dataclasses
import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from models.errors import UserError
from serving import questions
from serving.answers import Alignment, Continuation, PairScore, Translation, VersionStatus
from serving.asker import Asker
from serving.conversation import Batch
from serving.generation import Generation
from serving.questions import Outputs, Question
from serving.transport import AsyncTransport, CallError
from serving.transports import connect_async

Answer = TypeVar("Answer")


@dataclasses.dataclass(eq=False)
class AsyncClient(Asker):
    """Asks one server for one model, as `serving.client.Client` does, without blocking.

    The batches of one call go out together, a few at a time, and answers come back in the order
    of the texts. A request that finds no server (`UNAVAILABLE`) is repeated a few times within its
    timeout; no other is. When one batch fails, the others of its call are given up. Belongs to one
    event loop; many calls may be under way at once, and share the connections.

    What it is told besides, and the defaults, are `Asker`'s.

    Attributes:
        concurrency: Batches of one call that are under way at once, at most.
    """

    concurrency: int = 4

    def __post_init__(self) -> None:
        """Prepare; the connection is made by the first call."""
        super().__post_init__()
        if self.concurrency < 1:
            raise UserError(
                f"concurrency is {self.concurrency}: at least 1 batch must be under way"
            )
        self._connected: AsyncTransport | None = None

    async def __aenter__(self) -> "AsyncClient":
        """The client itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._connected:
            await self._connected.close()

    async def translate(self, texts: Sequence[str]) -> list[Translation]:
        """Translate texts, one answer each.

        Raises:
            UserError: If the server cannot be reached, or does not serve such a model.
            ServerFailure: If the server fails.
        """
        return await self._ask(questions.translations(texts))

    async def nbest(self, texts: Sequence[str]) -> list[list[Translation]]:
        """Find several translations of each text, best first.

        Raises:
            UserError: If the server cannot be reached, or does not serve such a model.
            ServerFailure: If the server fails.
        """
        return await self._ask(questions.nbest(texts))

    async def align(self, texts: Sequence[str]) -> list[Alignment]:
        """Translate texts and tell which pieces of the source each piece attended to.

        Raises:
            UserError: If the server cannot be reached, or does not serve such a model.
            ServerFailure: If the server fails.
        """
        return await self._ask(questions.alignments(texts))

    async def complete(self, pairs: Sequence[tuple[str, str]]) -> list[Translation]:
        """Translate texts so that the translations begin in a given way.

        Args:
            pairs: Text and beginning of its translation, which may be empty.

        Raises:
            UserError: If the server cannot be reached, or does not serve such a model.
            ServerFailure: If the server fails.
        """
        return await self._ask(questions.completions(pairs))

    async def score(self, pairs: Sequence[tuple[str, str]]) -> list[PairScore]:
        """Score given translations.

        Args:
            pairs: Source and target of each.

        Raises:
            UserError: If the server cannot be reached, or does not serve such a model.
            ServerFailure: If the server fails.
        """
        return await self._ask(questions.scores(pairs))

    async def generate(
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
        return await self._ask(questions.continuations(prompts, generation))

    async def predict(
        self, inputs: Mapping[str, Sequence], signature: str = "serving_default"
    ) -> list[dict[str, Any]]:
        """Run any signature of any model; see `Client.predict`.

        Args:
            inputs: Columns by name, all of one length: texts, bytes, integers or floats; or, where
                a row has many, as a clip has frames, lists of texts or bytes.
            signature: Its name.

        Returns:
            The outputs by name, a row each, in order.

        Raises:
            UserError: If the inputs cannot be right, the server cannot be reached, does not serve
                such a model or refuses the inputs.
            ServerFailure: If the server fails.
        """
        return await self._ask(questions.predictions(inputs, signature))

    async def status(self) -> list[VersionStatus]:
        """The versions of the model that the server knows, highest number first.

        Raises:
            UserError: If the server cannot be reached, or does not know the model.
            ServerFailure: If the server fails.
        """
        return await self._repeat(self._transport().status)

    def _transport(self) -> AsyncTransport:
        """Made by the first call, because it belongs to the loop that runs then."""
        if self._connected is None:
            protocol, model = self._conversation.protocol, self._conversation.model_name
            self._connected = connect_async(self._conversation.address, protocol, model)
        return self._connected

    async def _ask(self, question: Question[Answer]) -> list[Answer]:
        """Ask all batches, a few at a time."""
        free = asyncio.Semaphore(self.concurrency)
        tasks = [
            asyncio.ensure_future(self._answer(batch, free))
            for batch in self._conversation.batches(question)
        ]
        try:
            answers = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return [row for answer in answers for row in question.read(answer)]

    async def _answer(self, batch: Batch, free: asyncio.Semaphore) -> Outputs:
        async with free:
            predict = functools.partial(
                self._transport().predict, batch.signature.name, batch.inputs
            )
            answer = await self._repeat(predict, batch.signature.name)
        self._conversation.check(answer, batch)
        return answer

    async def _repeat(
        self, call: Callable[[float], Awaitable[Answer]], signature: str = ""
    ) -> Answer:
        """Make a call, again while no server is found and there is time."""
        attempts = self._conversation.attempts(signature)
        while True:
            try:
                return await call(attempts.seconds_left)
            except CallError as error:
                pause = attempts.pause_after(error)
            await asyncio.sleep(pause)
