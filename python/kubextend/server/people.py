"""HTTP endpoints for people: pods that Permit holds, what was decided, and the page that shows it.

An endpoint checks the caller before it reads the body or looks for the pod, so only an allowed
caller learns whether a pod waits or has a record. The files of the page have no data, and a browser
cannot send a bearer token when it opens a page. Where tokens are accepted, the files are therefore
for everybody, and the page asks for a token.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kubextend.decisions import DecisionReader, waiting_json
from kubextend.framework.handle import HeldPod, HeldPods
from kubextend.metrics import Metrics
from kubextend.server.access import Access, checked
from kubextend.server.reply import json_response
from kubextend.server.request_body import BodyReader, BytesInFlight, Share

__all__ = ["decision_routes", "page_routes", "waiting_pod_routes"]

_LOGGER = logging.getLogger(__name__)

_MOST_BODY_BYTES: Final = 64 * 1024
_BODIES: Final = BodyReader(_MOST_BODY_BYTES)
# The reason may become a part of an Event's note, which is limited to 1,024 characters.
_MOST_REASON_CHARS: Final = 1024
_NODE_FIELDS: Final = ("reason", "plugin", "node")
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
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}

_Decide: TypeAlias = Callable[[HeldPod, str | None], str | None]
"""Decides on a pod by the text of a body, and returns what is done; None: nothing can be."""
_Read: TypeAlias = Callable[[DecisionReader, Request], object]


def waiting_pod_routes(
    waiting_pods: HeldPods, access: Access, metrics: Metrics, *, path: str = "/"
) -> list[Route]:
    """Return the HTTP routes to list waiting pods, and to allow or reject a pod by its UID.

    Args:
        waiting_pods: the pods that Permit holds.
        access: decides who may call.
        metrics: counts refusals.
        path: the prefix of the routes, the same as that of the verbs.
    """
    prefix = f"{path.rstrip('/')}/waiting-pods"

    async def show(_who: str, _request: Request) -> Response:
        waiting = [_entry(held) for held in waiting_pods if held.pending_plugins]
        return json_response({"items": waiting}, option=orjson.OPT_OMIT_MICROSECONDS)

    def route(action: str, field: str, decide: _Decide) -> Route:
        async def answer(who: str, request: Request) -> Response:
            uid, text = request.path_params["uid"], _text(await _body(request), field)
            held = waiting_pods.get(uid)
            if held is None:
                raise HTTPException(404, f"no pod of UID {uid} is waiting")
            name, done = f"{held.pod.namespace}/{held.pod.name}", decide(held, text)
            if done is None:
                why = "is decided already"
                if action == "allow" and text is not None and (by := held.pending_plugins):
                    why = f"is not held by {text}, but by {', '.join(by)}"
                raise HTTPException(409, f"pod {name} {why}")
            _LOGGER.info("waiting pod %s is %sed by %s: %s", name, action, who, done)
            return json_response(_entry(held), option=orjson.OPT_OMIT_MICROSECONDS)

        endpoint = checked(access, metrics, answer)
        return Route(f"{prefix}/{{uid}}/{action}", endpoint, methods=["POST"])

    return [
        Route(prefix, checked(access, metrics, show), methods=["GET"]),
        route("allow", "plugin", _allow),
        route("reject", "reason", _reject),
    ]


def decision_routes(
    reader: DecisionReader, access: Access, metrics: Metrics, *, path: str = "/"
) -> list[Route]:
    """Return the HTTP routes that tell decisions about pods, the health of plugins, and a summary.

    Args:
        reader: reads the records.
        access: decides who may read.
        metrics: counts refusals.
        path: the prefix of the routes, the same as that of the verbs.
    """
    busy = threading.Semaphore(_MOST_AT_ONCE)

    def route(where: str, read: _Read) -> Route:
        async def answer(_who: str, request: Request) -> Response:
            # Readers must not take all threads from the verbs.
            if not busy.acquire(blocking=False):
                raise HTTPException(503, "other readers are being answered: ask again in a second")
            try:
                return await asyncio.to_thread(lambda: json_response(read(reader, request)))
            finally:
                busy.release()

        endpoint = checked(access, metrics, answer)
        return Route(path.rstrip("/") + where, endpoint, methods=["GET"])

    return [
        route("/decisions", _pod),
        route("/decisions/{uid}/nodes", _nodes),
        route("/plugins", lambda reader, _: reader.plugins()),
        route("/overview", lambda reader, _: reader.overview()),
    ]


def page_routes(access: Access, metrics: Metrics, *, path: str = "/") -> list[Route]:
    """Return the HTTP routes of the page and its two files, below ``ui/``.

    Args:
        access: decides who may read decisions.
        metrics: counts refusals.
        path: the prefix of the routes, the same as that of the verbs.
    """

    def route(name: str, file: Path) -> Route:
        body = file.read_bytes()

        async def show(request: Request) -> Response:
            if access.tokens is None:
                await access.caller(request, metrics)
            return Response(body, media_type=_TYPES[file.suffix], headers=_HEADERS)

        return Route(f"{path.rstrip('/')}/ui/{name}", show, methods=["GET"])

    return [route(name, _FOLDER / file) for name, file in _FILES.items()]


# Waiting pods.


def _allow(held: HeldPod, plugin: str | None) -> str | None:
    """Allow a pod for a Permit plugin, or for every plugin that holds it; None: for no plugin."""
    named = held.pending_plugins if plugin is None else (plugin,)
    allowed = [name for name in named if held.allow(name)]
    return f"for {', '.join(allowed)}" if allowed else None


def _reject(held: HeldPod, reason: str | None) -> str | None:
    """Reject a pod with a reason; None: it is decided already.

    Raises: HTTPException: 400: there is no reason.
    """
    if reason is None:
        raise HTTPException(400, "reason: Required value")
    return reason if held.reject("", reason) else None


def _entry(held: HeldPod) -> object:
    """Return a waiting pod as a JSON object."""
    pod = held.pod
    names = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return {**names, **waiting_json(held)}


async def _body(request: Request) -> bytes:
    """Return the body of a request; empty if there is no body, whatever the Content-Type.

    Raises: HTTPException: 403: a page of another site lets a browser send the request, with a
        client certificate perhaps. Browsers name the site of the page; other clients do not.
    """
    headers = request.headers
    site = headers.get("sec-fetch-site", "none")
    if site not in {"none", "same-origin"}:
        message = f"Sec-Fetch-Site: {site}: a page of another site may not call this"
        raise HTTPException(403, message)
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return b""
    share = Share(BytesInFlight(_MOST_BODY_BYTES))
    return bytes(await _BODIES.read(request.scope, request.receive, share))


def _text(body: bytes, field: str) -> str | None:
    """Return the text of a field, the only field that a JSON body may have; None if absent.

    Raises: HTTPException: 400: the body is no JSON object, or has another field or type.
    """
    try:
        given: Any = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError as error:
        raise HTTPException(400, f"the body is no JSON: {error}") from error
    if not isinstance(given, dict):
        raise HTTPException(400, "the body: expected an object")
    if unknown := sorted(given.keys() - {field}):
        message = f'{unknown[0]}: unknown field "{unknown[0]}"; known fields: {field}'
        raise HTTPException(400, message)
    text = given.get(field)
    if text is None:
        return None
    if not isinstance(text, str) or not text.isprintable() or not text.strip():
        raise HTTPException(400, f"{field}: expected one line of text")
    if len(text) > _MOST_REASON_CHARS:
        raise HTTPException(400, f"{field}: must have at most {_MOST_REASON_CHARS} characters")
    return text


# Decisions.


def _pod(reader: DecisionReader, request: Request) -> object:
    wanted = request.query_params.get("pod", "")
    if not wanted:
        raise HTTPException(400, "pod: Required value: namespace/name, or a UID")
    namespace, slash, name = wanted.partition("/")
    return reader.pod("", namespace, name) if slash else reader.pod(wanted)


def _nodes(reader: DecisionReader, request: Request) -> object:
    uid, query = request.path_params["uid"], request.query_params
    if unknown := sorted(query.keys() - set(_NODE_FIELDS)):
        raise HTTPException(400, f"{unknown[0]}: unknown; known: {', '.join(_NODE_FIELDS)}")
    answer = reader.nodes(uid, dict(query))
    if answer is None:
        raise HTTPException(404, f"there is no record of a pod of UID {uid}")
    return answer
