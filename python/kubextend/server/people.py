"""HTTP endpoints for people: pods that Permit holds, what was decided, and the page that shows it.

An endpoint checks the caller before it looks for the pod, so only an allowed caller learns whether
a pod waits or has a record. The files of the page have no data, and a browser cannot send a bearer
token when it opens a page. Where tokens are accepted, the files are therefore for everybody, and
the page asks for a token.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kubextend.decisions import DecisionReader, waiting_json
from kubextend.framework.handle import HeldPod, HeldPods
from kubextend.server.access import Access
from kubextend.server.reply import json_response

__all__ = ["decision_routes", "page_routes", "waiting_pod_routes"]

_LOGGER = logging.getLogger(__name__)

# The reason may become a part of an Event's note, which is limited to 1,024 characters.
_MOST_CHARS: Final = 1024
# To read a record of 15,000 nodes takes a tenth of a second of the interpreter.
_MOST_AT_ONCE: Final = 2

_FOLDER: Final = Path(__file__).with_name("page")
_FILES: Final = {"": "page.html", "page.css": "page.css", "page.js": "page.js"}
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
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
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}

_Read: TypeAlias = Callable[[DecisionReader, Request], object]


def waiting_pod_routes(waiting_pods: HeldPods, access: Access, *, path: str = "/") -> list[Route]:
    """Return the HTTP routes to list waiting pods, and to allow or reject a pod by its UID.

    Args:
        waiting_pods: the pods that Permit holds.
        access: decides who may call.
        path: the prefix of the routes, the same as that of the verbs.
    """
    prefix = f"{path.rstrip('/')}/waiting-pods"

    async def show(request: Request) -> Response:
        await access.caller(request)
        items = [_entry(held) for held in waiting_pods if held.pending_plugins]
        return json_response({"items": items})

    async def asked(request: Request, field: str) -> tuple[str, HeldPod, str | None]:
        """Return who asks about which pod, and a field of the query; None: it has no such field."""
        who, text = await access.caller(request), _text(request, field)
        held = waiting_pods.get(uid := request.path_params["uid"])
        if held is None:
            raise HTTPException(404, f"no pod of UID {uid} is waiting")
        return who, held, text

    async def allow(request: Request) -> Response:
        who, held, plugin = await asked(request, "plugin")
        named = held.pending_plugins if plugin is None else (plugin,)
        allowed = ", ".join(name for name in named if held.allow(name))
        return _decided(held, f"allowed by {who}: for {allowed}" if allowed else "")

    async def reject(request: Request) -> Response:
        who, held, reason = await asked(request, "reason")
        if reason is None:
            raise HTTPException(400, "reason: Required value")
        return _decided(held, f"rejected by {who}: {reason}" if held.reject("", reason) else "")

    return [
        Route(prefix, show, methods=["GET"]),
        Route(f"{prefix}/{{uid}}/allow", allow, methods=["POST"]),
        Route(f"{prefix}/{{uid}}/reject", reject, methods=["POST"]),
    ]


def decision_routes(reader: DecisionReader, access: Access, *, path: str = "/") -> list[Route]:
    """Return the HTTP routes that tell decisions about pods, the health of plugins, and a summary.

    Args:
        reader: reads the records.
        access: decides who may read.
        path: the prefix of the routes, the same as that of the verbs.
    """
    # Readers must not take all threads from the verbs.
    reading = asyncio.Semaphore(_MOST_AT_ONCE)

    def route(where: str, read: _Read) -> Route:
        async def answer(request: Request) -> Response:
            await access.caller(request)
            async with reading:
                return await asyncio.to_thread(lambda: json_response(read(reader, request)))

        return Route(path.rstrip("/") + where, answer, methods=["GET"])

    return [
        route("/decisions", _pod),
        route("/decisions/{uid}/nodes", _nodes),
        route("/plugins", lambda reader, _: reader.plugins()),
        route("/overview", lambda reader, _: reader.overview()),
    ]


def page_routes(access: Access, *, path: str = "/") -> list[Route]:
    """Return the HTTP routes of the page and its two files, below ``ui/``.

    Args:
        access: decides who may read decisions.
        path: the prefix of the routes, the same as that of the verbs.
    """

    def route(name: str, file: Path) -> Route:
        body = file.read_bytes()

        async def show(request: Request) -> Response:
            if access.token_file is None:
                await access.caller(request)
            return Response(body, media_type=_TYPES[file.suffix], headers=_HEADERS)

        return Route(f"{path.rstrip('/')}/ui/{name}", show, methods=["GET"])

    return [route(name, _FOLDER / file) for name, file in _FILES.items()]


# Waiting pods.


def _decided(held: HeldPod, done: str) -> Response:
    """Log what is done with a pod, and return the pod.

    Raises: HTTPException: 409: nothing is done, because the pod is decided or others hold it.
    """
    name = f"{held.pod.namespace}/{held.pod.name}"
    if not done:
        by = ", ".join(held.pending_plugins) or "no plugin any more"
        raise HTTPException(409, f"pod {name} is held by {by}")
    _LOGGER.info("waiting pod %s is %s", name, done)
    return json_response(_entry(held))


def _entry(held: HeldPod) -> object:
    """Return a waiting pod as a JSON object."""
    pod = held.pod
    names = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return {**names, **waiting_json(held)}


def _text(request: Request, field: str) -> str | None:
    """Return the text of a field, the only field that a query may have; None if absent.

    Raises: HTTPException: 403: a page of another site lets a browser send the request, with a
        client certificate perhaps: browsers name the site of the page, other clients do not. 400:
        the field is no line of text, or there is another field or a body.
    """
    headers = request.headers
    if headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}:
        raise HTTPException(403, "Sec-Fetch-Site: a page of another site may not call this")
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise HTTPException(400, f"a body is not read: put {field} into the query")
    text = _query(request, field).get(field)
    if text is not None and not (text.strip() and text.isprintable() and len(text) <= _MOST_CHARS):
        raise HTTPException(400, f"{field}: expected a line of at most {_MOST_CHARS} characters")
    return text


def _query(request: Request, *known: str) -> dict[str, str]:
    """Return the fields of a query; raise HTTPException 400 if one of them is not known."""
    query = dict(request.query_params)
    if unknown := sorted(query.keys() - set(known)):
        raise HTTPException(400, f"{unknown[0]}: unknown; known: {', '.join(known)}")
    return query


# Decisions.


def _pod(reader: DecisionReader, request: Request) -> object:
    wanted = request.query_params.get("pod", "")
    if not wanted:
        raise HTTPException(400, "pod: Required value: namespace/name, or a UID")
    namespace, slash, name = wanted.partition("/")
    return reader.pod("", namespace, name) if slash else reader.pod(wanted)


def _nodes(reader: DecisionReader, request: Request) -> object:
    uid = request.path_params["uid"]
    answer = reader.nodes(uid, _query(request, "reason", "plugin", "node"))
    if answer is None:
        raise HTTPException(404, f"there is no record of a pod of UID {uid}")
    return answer
