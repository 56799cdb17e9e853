"""Guesses what a file is in that is not UTF-8, for the advice in an error message."""

import re

_UTF16_MARKS = {b"\xff\xfe": "UTF-16LE", b"\xfe\xff": "UTF-16BE"}
_HAN = re.compile("[\u3400-\u9fff\uff00-\uffef\u3000-\u303f]")


def is_text(data: bytes) -> bool:
    """Whether bytes are UTF-8 without NUL, which only UTF-16 and binary files hold."""
    if b"\0" in data:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def guess_encoding(head: bytes) -> str | None:
    """Likely encoding of bytes that are not UTF-8.

    Args:
        head: The first bytes of the file.

    Returns:
        A name `iconv` knows, `gzip`, or None where nothing speaks for any.
    """
    if head[:2] == b"\x1f\x8b":
        return "gzip"
    if head[:2] in _UTF16_MARKS:
        return _UTF16_MARKS[head[:2]]
    if head.count(b"\0") > len(head) / 5:
        return "UTF-16LE" if head[1::2].count(b"\0") > head[::2].count(b"\0") else "UTF-16BE"
    if _is_mostly_han(head):
        return "GBK"
    return None if b"\0" in head else "WINDOWS-1252"


def _is_mostly_han(head: bytes) -> bool:
    """Whether bytes are GBK: they decode, and what is not ASCII turns out Chinese."""
    whole_lines = head.rpartition(b"\n")[0] or head
    try:
        text = whole_lines.decode("gb18030")
    except UnicodeDecodeError:
        return False
    foreign = [character for character in text if character > "\x7f"]
    return len(_HAN.findall("".join(foreign))) > len(foreign) / 2


def advice(path: str, head: bytes) -> str:
    """What to do about a file that is not UTF-8."""
    guess = guess_encoding(head)
    if guess == "gzip":
        return "It is compressed by gzip: give it a name that ends in .gz"
    if guess is None:
        return "Convert it to UTF-8, or name another file"
    if path.endswith(".gz"):
        plain = path.removesuffix(".gz")
        return f"If it is {guess}: zcat {path} | iconv -f {guess} -t UTF-8 > {plain}"
    return f"If it is {guess}: iconv -f {guess} -t UTF-8 {path} > {path}.utf8"
