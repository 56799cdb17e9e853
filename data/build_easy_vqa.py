r"""Writes easy-VQA, of the extra `easy-vqa`, as pictures and JSON lines.

    pip install 'seqloom[easy-vqa]'
    python data/build_easy_vqa.py runs/easy-vqa-data

The pictures go to `images/train` and `images/test`, and the questions about them to
`train.jsonl` and `test.jsonl`: objects of `image`, a path below `images`, `question` and
`answer`. No code of the package is run.
"""

import importlib.util
import json
import pathlib
import shutil
from typing import Annotated

import typer

SPLITS = ("train", "test")


def package_folder() -> pathlib.Path:
    """Where the package keeps its data.

    Raises:
        typer.BadParameter: If it is not installed.
    """
    found = importlib.util.find_spec("easy_vqa")
    if found is None or not found.submodule_search_locations:
        raise typer.BadParameter("easy-VQA is not installed; run: pip install 'seqloom[easy-vqa]'")
    return pathlib.Path(found.submodule_search_locations[0], "data")


def questions(folder: pathlib.Path, split: str) -> list[dict[str, str]]:
    """The records of a split, in the package's order."""
    rows = json.loads((folder / split / "questions.json").read_text(encoding="utf-8"))
    return [
        {"image": f"{split}/{picture}.png", "question": question, "answer": answer}
        for question, answer, picture in rows
    ]


def main(out: Annotated[pathlib.Path, typer.Argument(help="Folder that is made or filled.")]):
    """Write both splits."""
    folder = package_folder()
    for split in SPLITS:
        images = out / "images" / split
        shutil.copytree(folder / split / "images", images, dirs_exist_ok=True)
        records = questions(folder, split)
        lines = "".join(f"{json.dumps(record)}\n" for record in records)
        (out / f"{split}.jsonl").write_text(lines, encoding="utf-8")
        print(f"{len(records):,} questions about {len(list(images.iterdir())):,} pictures: {split}")


if __name__ == "__main__":
    typer.run(main)
