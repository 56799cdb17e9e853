r"""Makes a corpus of what several captions of a photo have in common: a stand-in for summaries.

    python data/build_summary_corpus.py $SEQLOOM_DATA/coco-mini/captions_val2017-full.json \
        runs/captions.jsonl

A line is a JSON object: `article`, the captions of a photo but the first, a line each, and
`summary`, the first. It is no summarisation of news, but has the same form, and shows that the
road is there.
"""

import collections
import json
import pathlib
from collections.abc import Iterator
from typing import Annotated

import typer


def summaries(document: dict) -> Iterator[dict[str, str]]:
    """Records of a file in the form of COCO's captions, in the order of the photos' ids."""
    captions = collections.defaultdict(list)
    for annotation in sorted(document["annotations"], key=lambda each: each["id"]):
        captions[annotation["image_id"]].append(" ".join(annotation["caption"].split()))
    for _, (first, *others) in sorted(captions.items()):
        if others:
            yield {"article": "\n".join(others), "summary": first}


def main(
    captions: Annotated[pathlib.Path, typer.Argument(help="Captions in COCO's form.")],
    out: Annotated[pathlib.Path, typer.Argument(help="Gets a record a line.")],
    first: Annotated[int | None, typer.Option(help="Photos at most; all if not given.")] = None,
) -> None:
    """Make the corpus."""
    found = list(summaries(json.loads(captions.read_text(encoding="utf-8"))))[:first]
    out.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(record, ensure_ascii=False) for record in found)
    out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{len(found):,} records in {out}")


if __name__ == "__main__":
    typer.run(main)
