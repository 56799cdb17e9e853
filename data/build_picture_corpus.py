"""Makes a small corpus of captioned photos: those that scikit-image and scikit-learn bring along.

    pip install 'seqloom[pictures]'
    python data/build_picture_corpus.py runs/pictures-corpus

The photos are copied from the installed packages, and the captions are the project's own;
`data/picture_captions.json` has both, and each photo's licence. Beside the photos lie their mirror
images, which a model that learns the photos has not seen.
"""

import importlib.util
import json
import pathlib
import shutil
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from PIL import Image, ImageOps

CAPTIONS = pathlib.Path(__file__).with_name("picture_captions.json")


def main(
    out: Annotated[pathlib.Path, typer.Argument(help="Folder that gets the corpus.")],
    captions: Annotated[pathlib.Path, typer.Option(help="Which photos, and what they show.")] = (
        CAPTIONS
    ),
) -> None:
    """Make the corpus."""
    pictures = json.loads(captions.read_text(encoding="utf-8"))
    beside = out.with_name(f".{out.name}.partial")
    shutil.rmtree(beside, ignore_errors=True)
    for kind in ("photos", "mirrored"):
        (beside / kind).mkdir(parents=True)
    for path in found(pictures):
        shutil.copyfile(path, beside / "photos" / path.name)
        with Image.open(path) as picture:
            ImageOps.mirror(picture).save(beside / "mirrored" / path.name)
    rows = [
        {"file": pathlib.Path(each["file"]).name, "captions": each["captions"]} for each in pictures
    ]
    (beside / "captions.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    shutil.rmtree(out, ignore_errors=True)
    beside.rename(out)
    print(
        f"{len(rows)} photos with {sum(len(each['captions']) for each in rows)} captions in {out}"
    )


def found(pictures: list[dict[str, Any]]) -> Iterator[pathlib.Path]:
    """The files of the photos; ends the program where a package or a file is missing."""
    for each in pictures:
        package = importlib.util.find_spec(each["package"])
        places = package.submodule_search_locations if package else None
        path = pathlib.Path(places[0], each["file"]) if places else None
        if path is None or not path.is_file():
            raise SystemExit(
                f"{path or each['package']}: not installed; run: pip install 'seqloom[pictures]'"
            )
        yield path


if __name__ == "__main__":
    typer.run(main)
