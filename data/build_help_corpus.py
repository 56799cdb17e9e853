"""Builds parallel corpora from the LibreOffice help packages of Debian.

    python data/build_help_corpus.py --target zh-cn --out data

writes `help.zh-en.train.tsv.gz`, `.valid.tsv.gz` and `.test.tsv.gz`: a pair a line, source
TAB target. `--target fr` and `--target de` give `help.en-fr.*` and `help.en-de.*`.
"""

import dataclasses
import gzip
import hashlib
import io
import os
import pathlib
import sys
import tempfile
import unicodedata
from collections.abc import Iterable
from typing import Annotated

import typer
from help_packages import HelpPackage, download_packages, find_package, read_package
from help_pairs import Pair, PairCollector
from rich.console import Console
from rich.table import Table

from models.errors import UserError

SPLITS = ("train", "valid", "test")
# Shares of all sources. A sentence keeps its split when the packages change.
VALID_SHARE = 0.042
TEST_SHARE = 0.042
ENGLISH_PACKAGE = "libreoffice-help-en-us"


@dataclasses.dataclass(frozen=True)
class Corpus:
    """What is built for a language.

    Attributes:
        name: Languages of source and target, as in the names of the files.
        package: Debian package of the language that is not English.
        english_is_source: Whether English is the source, else it is the target.
        chinese: Whether that language is Chinese.
    """

    name: str
    package: str
    english_is_source: bool = True
    chinese: bool = False


CORPORA = {
    "zh-cn": Corpus("zh-en", "libreoffice-help-zh-cn", english_is_source=False, chinese=True),
    "fr": Corpus("en-fr", "libreoffice-help-fr"),
    "de": Corpus("en-de", "libreoffice-help-de"),
}


def split_of(source: str) -> str:
    """The split of a source sentence, by its hash alone.

    Letter case and the width of characters do not count, so that sentences which differ in
    nothing else stand in one split.
    """
    folded = unicodedata.normalize("NFKC", source).casefold()
    digest = hashlib.sha256(folded.encode()).digest()
    point = int.from_bytes(digest[:8], "big") / 2**64
    if point < VALID_SHARE:
        return "valid"
    return "test" if point < VALID_SHARE + TEST_SHARE else "train"


def split_pairs(pairs: Iterable[Pair]) -> dict[str, list[Pair]]:
    """Pairs by split, in the order given.

    Args:
        pairs: Pairs, source first.
    """
    splits: dict[str, list[Pair]] = {split: [] for split in SPLITS}
    for pair in pairs:
        splits[split_of(pair[0])].append(pair)
    return splits


def compressed(pairs: Iterable[Pair]) -> bytes:
    """A gzip file of one pair a line, source TAB target, without a name or time in it."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=buffer, mtime=0) as file:
        for source, target in pairs:
            file.write(f"{source}\t{target}\n".encode())
    return buffer.getvalue()


def publish(contents: dict[pathlib.Path, bytes]) -> None:
    """Write files whole: all beside their places first, and only then into them.

    Raises:
        UserError: If a file cannot be written.
    """
    beside = {path: path.with_name(f".{path.name}.{os.getpid()}.partial") for path in contents}
    try:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            beside[path].write_bytes(content)
        for path in contents:
            os.replace(beside[path], path)
    except OSError as error:
        raise UserError(f"--out: cannot write {error.filename}: {error.strerror}") from None
    finally:
        for path in beside.values():
            if path.exists():
                path.unlink()


def read_packages(corpus: Corpus, folder: pathlib.Path) -> tuple[HelpPackage, HelpPackage]:
    """The English package and the other one, of one version.

    Raises:
        UserError: If one is missing or torn, or their versions differ.
    """
    if not folder.is_dir():
        raise UserError(f"--packages: {folder} is not a folder; name the folder of the .deb files")
    english, other = (
        read_package(find_package(folder, name)) for name in (ENGLISH_PACKAGE, corpus.package)
    )
    if english.version != other.version:
        raise UserError(
            f"{folder}: {english.name} has version {english.version} and {other.name} "
            f"{other.version}; the pages match only if the versions are the same"
        )
    return english, other


def build(corpus: Corpus, folder: pathlib.Path, out: pathlib.Path, console: Console) -> None:
    """Build and publish the three files of a corpus from packages in a folder.

    Args:
        corpus: What to build.
        folder: Folder of the `.deb` files.
        out: Folder of the files to write.
        console: Where to say what was read, dropped and written.

    Raises:
        UserError: If the packages cannot be used.
    """
    english, other = read_packages(corpus, folder)
    for package in (english, other):
        print_line(console, f"{package.name} {package.version}: {len(package.pages)} pages")
    collector = PairCollector(corpus.chinese)
    collector.add_pages(english.pages, other.pages)
    pairs = (
        collector.pairs if corpus.english_is_source else (pair[::-1] for pair in collector.pairs)
    )
    splits = split_pairs(pairs)
    console.print(report(collector))
    contents = {
        out / f"help.{corpus.name}.{name}.tsv.gz": compressed(splits[name]) for name in SPLITS
    }
    publish(contents)
    for path, split in zip(contents, splits.values(), strict=True):
        print_line(console, f"{path}: {len(split)} pairs, {len(contents[path])} bytes")


def print_line(console: Console, text: str) -> None:
    """Print a line as it is: not wrapped, and with no meaning read into its brackets."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def report(collector: PairCollector) -> Table:
    """What became of the paragraphs of the English pages."""
    table = Table("paragraphs", "number", title="English paragraphs")
    table.columns[1].justify = "right"
    table.add_row("read", str(collector.read))
    for reason, number in collector.dropped.most_common():
        table.add_row(f"dropped: {reason.value}", str(number))
    table.add_row("kept", str(len(collector.pairs)))
    return table


def command(
    target: Annotated[str, typer.Option(help=f"Language beside English: {', '.join(CORPORA)}.")],
    out: Annotated[pathlib.Path, typer.Option(help="Folder of the files to write.")],
    packages: Annotated[
        pathlib.Path | None,
        typer.Option(help="Folder of .deb files already here; fetched by apt-get if not given."),
    ] = None,
) -> None:
    """Build a parallel corpus from Debian's LibreOffice help packages.

    Example: python data/build_help_corpus.py --target zh-cn --out data
    """
    if target not in CORPORA:
        raise UserError(f"--target: {target!r} is not one of {', '.join(CORPORA)}")
    corpus, console = CORPORA[target], Console()
    if packages is not None:
        build(corpus, packages, out, console)
        return
    with tempfile.TemporaryDirectory() as folder:
        names = [ENGLISH_PACKAGE, corpus.package]
        print_line(console, f"fetching {' and '.join(names)}")
        download_packages(names, pathlib.Path(folder))
        build(corpus, pathlib.Path(folder), out, console)


def main() -> None:
    """Run the command; the user's mistakes are one line on standard error and status 2."""
    try:
        typer.run(command)
    except UserError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
