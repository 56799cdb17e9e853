"""The target of an HTTP request, as the real server's web server (libevent) reads it."""

import re

_AUTHORITY = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?//[^/?#]*")
# RFC 3986, section 3.3 and 3.4: what a path is made of, and a query besides.
_IN_PATH = r"[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2}"
_PATH_AND_QUERY = re.compile(rf"(?:{_IN_PATH})*(?:\?(?:{_IN_PATH}|\?)*)?(?:#(?:{_IN_PATH}|\?)*)?")


def path_and_query(target: str) -> str | None:
    """What is asked for, without the host that proxies are told.

    Args:
        target: As the request line has it.

    Returns:
        Path and query, still quoted; None if the target is no URI, which is refused before anybody
        looks at what it asks for.
    """
    host = _AUTHORITY.match(target)
    asked = target[host.end() :] if host else target
    return asked if _PATH_AND_QUERY.fullmatch(asked) else None
