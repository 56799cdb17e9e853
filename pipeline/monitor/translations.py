"""Sample answers, such as translations, as a table."""

from pipeline.monitor.event_log import EventLog
from pipeline.monitor.panel import Observation, Panel, ValidationSamples

TAG = "translations"

_PUNCTUATION = {ord(mark): f"&#{ord(mark)};" for mark in "\\`*_{}[]()#+-.!|<>&~\"':/=^$@"}
"""Marks that Markdown, its tables or HTML could read as their own."""


class Translations(Panel):
    """Source, reference and answer of every sample, side by side."""

    def show(self, observation: Observation, log: EventLog) -> None:
        """Add the table."""
        if observation.samples and observation.samples.sources:
            log.text(TAG, table(observation.samples), observation.step)


def table(samples: ValidationSamples) -> str:
    """The samples as a Markdown table, a row a sentence.

    Args:
        samples: Sentences in any script, with any marks in them.

    Returns:
        Markdown in which the sentences stand letter for letter.
    """
    rows = ["| | Source | Reference | Answer |", "| --- | --- | --- | --- |"]
    triples = zip(samples.sources, samples.references, samples.hypotheses, strict=True)
    for number, triple in enumerate(triples, start=1):
        rows.append("| " + " | ".join([str(number), *map(_cell, triple)]) + " |")
    return "\n".join(rows)


def _cell(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line.translate(_PUNCTUATION) or "*empty*"
