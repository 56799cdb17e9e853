"""`seqloom generate`: prompts to texts, by a server or by a model here."""

import codecs
import dataclasses
import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Protocol

from pipeline.places import Place
from pipeline.translate import asked_model, check_streams
from serving.answers import Continuation
from serving.generation import Generation


class Generates(Protocol):
    """Anything that goes on with a list of texts, as `Client` does."""

    def generate(self, prompts: Sequence[str], generation: Generation) -> list[Continuation]:
        """One continuation a prompt."""


def generate_texts(
    prompts: Sequence[str],
    generation: Generation,
    server: str,
    rest: bool,
    model: Place | None,
    model_name: str,
    batch_size: int,
    timeout: float,
) -> None:
    """Print each prompt and how it goes on.

    Args:
        prompts: How texts begin; if there are none, the lines of standard input, each of which
            is answered by one line.
        generation: How words are drawn.
        server: `host:port`; the API's usual port of this machine if empty.
        rest: Ask over REST, not gRPC.
        model: An exported model to use in place of a server, or None.
        model_name: Name the server knows the model by.
        batch_size: Prompts a request.
        timeout: Seconds a request may take.

    Raises:
        UserError: If there is no such server or model, or a setting cannot be right.
        SystemExit: With status 1, if the server fails.
    """
    check_streams(*(("output",) if prompts else ("input", "output")))
    with asked_model(server, rest, model, model_name, batch_size, timeout) as generator:
        if prompts:
            texts = _texts(generator, iter(prompts), generation, batch_size)
            _print(f"{text}\n" for text in texts)
        else:
            texts = _texts(generator, _lines(sys.stdin.buffer), generation, batch_size)
            _print(" ".join(text.splitlines()) + "\n" for text in texts)


def _texts(
    generator: Generates, prompts: Iterator[str], generation: Generation, batch_size: int
) -> Iterator[str]:
    """Whole texts. The n-th prompt's draws are those of seed + n, however they are batched."""
    done = 0
    while batch := list(itertools.islice(prompts, batch_size)):
        seeded = dataclasses.replace(generation, seed=generation.seed + done)
        for prompt, found in zip(batch, generator.generate(batch, seeded), strict=True):
            yield prompt + found.text
        done += len(batch)


def _lines(stream: BinaryIO) -> Iterator[str]:
    for number, line in enumerate(stream):
        if number == 0:
            line = line.removeprefix(codecs.BOM_UTF8)
        yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")


def _print(texts: Iterator[str]) -> None:
    for text in texts:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
