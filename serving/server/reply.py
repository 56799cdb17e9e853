"""What a REST request is answered with."""

import dataclasses

JSON = "application/json"
HTML = "text/html"
PLAIN = "text/plain"


@dataclasses.dataclass(frozen=True)
class Reply:
    """An HTTP response.

    Attributes:
        status: The HTTP status.
        body: The body, whole.
        content_type: Its media type; empty for none.
        headers: Further headers, names in small letters.
    """

    status: int
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
