"""Serves the page that shows decisions in a browser: three files, which have no data.

The page asks the endpoints of decisions, which check each request. A browser cannot send a bearer
token when it opens a page. Where tokens are accepted, the files are therefore for everybody, and
the page asks for a token. Where only certificates are accepted, the files are for readers alone.
"""

from pathlib import Path
from typing import Final

from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from kubextend.metrics import Metrics
from kubextend.server.access import Access, refuse_caller
from kubextend.server.reply import RefusedError

__all__ = ["page_routes"]

_FOLDER: Final = Path(__file__).with_name("page")
_FILES: Final = {
    "": ("page.html", "text/html"),
    "page.css": ("page.css", "text/css"),
    "page.js": ("page.js", "text/javascript"),
}
# Nothing but the page's own two files and its requests; no text may become markup.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Final = {
    # A page that the browser keeps would keep the token.
    "cache-control": "no-store",
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def page_routes(access: Access, metrics: Metrics, *, path: str = "/") -> list[Route]:
    """Return the HTTP routes of the page and its two files, below ``ui/``.

    Args:
        access: decides who may read decisions.
        metrics: counts refusals.
        path: the prefix of the routes, the same as that of the verbs.
    """
    prefix = f"{path.rstrip('/')}/ui/"
    return [
        Route(prefix + name, _File(file, media_type, access, metrics), methods=["GET"])
        for name, (file, media_type) in _FILES.items()
    ]


class _File:
    """The ASGI application of one file of the page."""

    def __init__(self, file: str, media_type: str, access: Access, metrics: Metrics) -> None:
        body = (_FOLDER / file).read_bytes()
        self._response = Response(body, media_type=media_type, headers=_HEADERS)
        self._access = access
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the ASGI request of ``scope``."""
        if self._access.tokens is None:
            try:
                await self._access.caller(scope, self._metrics)
            except RefusedError as refused:
                await refuse_caller(send, refused, self._metrics)
                return
        await self._response(scope, receive, send)
