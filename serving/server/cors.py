"""Cross-origin requests: what lets pages of other sites ask the REST API."""

import dataclasses
import re

from serving.server.reply import Reply

# As the real server sends them, with every answer of the API.
HEADERS = (
    ("access-control-allow-origin", "*"),
    ("access-control-allow-methods", "POST, GET"),
    ("access-control-allow-headers", "Content-Type"),
)
_SITE = re.compile(r"https?://")


def preflight(origin: str) -> Reply:
    """Answer the question that a browser asks before a request: may I?

    Args:
        origin: The request's header `Origin`.
    """
    return Reply(200 if _SITE.search(origin) else 400, b"", "")


def allowed(reply: Reply) -> Reply:
    """The same answer, for pages of any site to read."""
    return dataclasses.replace(reply, headers=HEADERS)
