"""Debian's LibreOffice help packages: fetching them, and reading the pages in them.

A `.deb` is an `ar` archive of two compressed tar archives, `control.tar.*` and `data.tar.*`.
They are read here as such, so that Debian's tools are needed for fetching only.
"""

import dataclasses
import email.parser
import io
import lzma
import pathlib
import re
import shutil
import subprocess
import tarfile
import zlib

from models.errors import UserError

_ARCHIVE_MAGIC = b"!<arch>\n"
_HEADER_SIZE = 60
_HEADER_END = b"`\n"
_PAGE = re.compile(r"\./usr/share/libreoffice/help/[^/]+/(text/.+\.html)")


@dataclasses.dataclass(frozen=True)
class HelpPackage:
    """The help of one language.

    Attributes:
        name: Name of the Debian package.
        version: Its version, such as `4:7.4.7-1+deb12u14`.
        pages: HTML by path, the same path in all languages.
    """

    name: str
    version: str
    pages: dict[str, str]


def download_packages(names: list[str], folder: pathlib.Path) -> None:
    """Fetch packages with `apt-get download`, in the version the system's sources offer.

    Args:
        names: Names of the packages.
        folder: Folder to put the `.deb` files in.

    Raises:
        UserError: If there is no apt-get, or it fails.
    """
    remedy = f"Put the .deb files of {' and '.join(names)} in a folder and pass --packages FOLDER."
    if shutil.which("apt-get") is None:
        raise UserError(f"apt-get: no such command on PATH, so no package can be fetched. {remedy}")
    command = ["apt-get", "--quiet", "download", *names]
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        lines = finished.stderr.strip().splitlines() or ["it said nothing"]
        raise UserError(
            f"{' '.join(command)}: exit status {finished.returncode}: {lines[-1]} "
            f"Run `apt-get update` first, or: {remedy}"
        )


def find_package(folder: pathlib.Path, name: str) -> pathlib.Path:
    """The one `.deb` file of a package in a folder.

    Raises:
        UserError: If there is none, or more than one.
    """
    found = sorted(folder.glob(f"{name}_*.deb"))
    if not found:
        raise UserError(
            f"{folder}: no file {name}_*.deb; fetch it with `apt-get download {name}` there"
        )
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise UserError(f"{folder}: expected one file {name}_*.deb, found {names}; keep one")
    return found[0]


def read_package(path: pathlib.Path) -> HelpPackage:
    """Read the help pages of a package, without unpacking it to disk.

    Args:
        path: The `.deb` file.

    Raises:
        UserError: If the file is not a whole Debian package, or holds no help.
    """
    try:
        members = _archive_members(path.read_bytes())
        fields = _control_fields(_open_tar(members, "control.tar"))
        pages = _pages(_open_tar(members, "data.tar"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None
    except (ValueError, KeyError, EOFError, tarfile.TarError, lzma.LZMAError, zlib.error) as error:
        raise UserError(
            f"{path}: not a whole Debian package with members compressed by gzip, bzip2 or xz "
            f"({error}); fetch it again"
        ) from None
    if not pages:
        raise UserError(
            f"{path}: no page below usr/share/libreoffice/help; expected a help package"
        )
    return HelpPackage(fields["Package"], fields["Version"], pages)


def _archive_members(archive: bytes) -> dict[str, bytes]:
    """Members of an `ar` archive by name; a header is text of fixed columns."""
    if not archive.startswith(_ARCHIVE_MAGIC):
        raise ValueError("no ar archive")
    members, position = {}, len(_ARCHIVE_MAGIC)
    while position < len(archive):
        header = archive[position : position + _HEADER_SIZE]
        if not header.endswith(_HEADER_END) or len(header) != _HEADER_SIZE:
            raise ValueError(f"no member header at byte {position}")
        size, start = int(header[48:58]), position + _HEADER_SIZE
        name = header[:16].decode("ascii").strip().removesuffix("/")
        members[name] = archive[start : start + size]
        if len(members[name]) != size:
            raise ValueError(f"{name} ends early")
        position = start + size + size % 2
    return members


def _open_tar(members: dict[str, bytes], stem: str) -> tarfile.TarFile:
    for name, content in members.items():
        if name.startswith(stem):
            return tarfile.open(fileobj=io.BytesIO(content), mode="r:*")
    raise ValueError(f"no member {stem}.*")


def _control_fields(archive: tarfile.TarFile) -> dict[str, str]:
    text = _text(archive, archive.getmember("./control"))
    fields = dict(email.parser.HeaderParser().parsestr(text))
    return {name: fields[name] for name in ("Package", "Version")}


def _pages(archive: tarfile.TarFile) -> dict[str, str]:
    pages = {}
    for member in archive:
        match = _PAGE.fullmatch(member.name)
        if match and member.isfile():
            pages[match[1]] = _text(archive, member)
    return pages


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = archive.extractfile(member)
    if file is None:
        raise ValueError(f"{member.name} is not a file")
    return file.read().decode("utf-8")
