"""The programs of `data/` import each other as scripts do: from their own folder."""

import io
import pathlib
import sys
import tarfile

import pytest

DATA = pathlib.Path(__file__).parents[2] / "data"
sys.path.insert(0, str(DATA))


@pytest.fixture
def data_folder():
    """The folder `data/` of the project."""
    return DATA


def _tar(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz") as archive:
        for name, text in files.items():
            content = text.encode("utf-8")
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _archive(members):
    parts = [b"!<arch>\n"]
    for name, content in members.items():
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n"
        parts += [header.encode("ascii"), content, b"\n" * (len(content) % 2)]
    return b"".join(parts)


@pytest.fixture
def write_package():
    """Writes a `.deb` of help pages; takes folder, language and pages (path to HTML)."""

    def write(folder, language, pages, version="4:7.4.7-1"):
        name = f"libreoffice-help-{language}"
        root = f"./usr/share/libreoffice/help/{language}"
        files = {f"{root}/{path}": page for path, page in pages.items()}
        members = {
            "debian-binary": b"2.0\n",
            "control.tar.xz": _tar({"./control": f"Package: {name}\nVersion: {version}\n"}),
            "data.tar.xz": _tar({**files, "./usr/share/doc/copyright": "MPL-2.0"}),
        }
        path = folder / f"{name}_{version.replace(':', '%3a')}_all.deb"
        path.write_bytes(_archive(members))
        return path

    return write
