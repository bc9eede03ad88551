"""HTTP endpoints for pods that Permit holds: list, allow, reject.

An endpoint checks the caller before it reads the body, and only an allowed caller learns whether a
pod waits.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import orjson
from starlette.datastructures import Headers
from starlette.routing import Route
from starlette.types import Receive, Scope

from kubextend.decisions import waiting_json
from kubextend.framework.handle import HeldPod, HeldPods
from kubextend.metrics import Family, Metrics
from kubextend.server.access import Access, CheckedEndpoint
from kubextend.server.connection.body_reader import BodyReader
from kubextend.server.reply import RefusedError

__all__ = ["waiting_pod_routes"]

_LOGGER = logging.getLogger(__name__)

_REQUESTS: Final = Family(
    "kubextend_waiting_pod_requests",
    "Requests about waiting pods that did what they asked for: list, allow, reject.",
    ("action",),
)
_BODIES: Final = BodyReader(64 * 1024)
# The reason may become a part of an Event's note, which is limited to 1,024 characters.
_MOST_REASON_CHARS: Final = 1024
_TIMES: Final = orjson.OPT_OMIT_MICROSECONDS | orjson.OPT_UTC_Z

_Action: TypeAlias = Callable[[HeldPods, str, str, bytes], object]
"""A function of the held pods, the caller, the pod's UID and the body; returns the JSON answer."""


def waiting_pod_routes(
    waiting_pods: HeldPods, access: Access, metrics: Metrics, *, path: str = "/"
) -> list[Route]:
    """Return the HTTP routes to list waiting pods, and to allow or reject a pod by its UID.

    Args:
        waiting_pods: the pods that Permit holds.
        access: decides who may call.
        metrics: counts calls and refusals.
        path: the prefix of the routes, the same as that of the verbs.
    """
    prefix = f"{path.rstrip('/')}/waiting-pods"

    def endpoint(name: str, action: _Action) -> CheckedEndpoint:
        async def answer(who: str, scope: Scope, receive: Receive) -> bytes:
            _refuse_another_site(scope)
            body = await _body(scope, receive)
            done = action(waiting_pods, who, scope["path_params"].get("uid", ""), body)
            metrics.counter(_REQUESTS, name).inc()
            return orjson.dumps(done, option=_TIMES)

        return CheckedEndpoint(access, metrics, answer)

    return [
        Route(prefix, endpoint("list", _list), methods=["GET"]),
        Route(f"{prefix}/{{uid}}/allow", endpoint("allow", _allow), methods=["POST"]),
        Route(f"{prefix}/{{uid}}/reject", endpoint("reject", _reject), methods=["POST"]),
    ]


def _list(waiting_pods: HeldPods, _who: str, _uid: str, _body: bytes) -> object:
    return {"items": [_entry(held) for held in waiting_pods if held.pending_plugins]}


def _allow(waiting_pods: HeldPods, who: str, uid: str, body: bytes) -> object:
    """Allow a waiting pod for the Permit plugin in the body, or for every plugin that holds it.

    Raises: RefusedError: 400: the body is not valid; 404: no pod with this UID waits; 409: neither
        the named plugin nor, if none is named, any plugin holds the pod.
    """
    plugin = _text(body, "plugin")
    held = _found(waiting_pods, uid)
    named = held.pending_plugins if plugin is None else (plugin,)
    allowed = [name for name in named if held.allow(name)]
    if not allowed:
        raise _conflict(held, plugin)
    _log("allowed", held, who, f"for {', '.join(allowed)}")
    return _entry(held)


def _reject(waiting_pods: HeldPods, who: str, uid: str, body: bytes) -> object:
    """Reject a waiting pod with the reason that the body gives.

    Raises: RefusedError: 400: the body is not valid; 404: no pod with this UID waits; 409: the pod
        is already allowed or rejected.
    """
    reason = _text(body, "reason")
    if reason is None:
        raise RefusedError(400, "reason: Required value")
    held = _found(waiting_pods, uid)
    if not held.reject("", reason):
        raise _conflict(held)
    _log("rejected", held, who, reason)
    return _entry(held)


def _found(waiting_pods: HeldPods, uid: str) -> HeldPod:
    held = waiting_pods.get(uid)
    if held is None:
        raise RefusedError(404, f"no pod of UID {uid} is waiting")
    return held


def _conflict(held: HeldPod, plugin: str | None = None) -> RefusedError:
    why = "is decided already"
    if plugin is not None and (pending := held.pending_plugins):
        why = f"is not held by {plugin}, but by {', '.join(pending)}"
    message = f"pod {held.pod.namespace}/{held.pod.name} {why}"
    return RefusedError(409, message)


def _log(done: str, held: HeldPod, who: str, what: str) -> None:
    pod = held.pod
    _LOGGER.info("waiting pod %s/%s is %s by %s: %s", pod.namespace, pod.name, done, who, what)


def _entry(held: HeldPod) -> Mapping[str, object]:
    """Return a waiting pod as a JSON object."""
    pod = held.pod
    names = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return {**names, **waiting_json(held)}


def _refuse_another_site(scope: Scope) -> None:
    """Refuse what a page of another site lets a browser send, with a client certificate perhaps.

    Raises: RefusedError: 403: the header ``Sec-Fetch-Site`` names another site. Browsers send it
        with each request; other clients do not.
    """
    site = Headers(scope=scope).get("sec-fetch-site", "none")
    if site not in {"none", "same-origin"}:
        raise RefusedError(403, f"Sec-Fetch-Site: {site}: a page of another site may not call this")


async def _body(scope: Scope, receive: Receive) -> bytes:
    """Return the body of a request; empty if there is no body, whatever the Content-Type."""
    headers = Headers(scope=scope)
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return b""
    return bytes(await _BODIES.read(scope, receive))


def _text(body: bytes, field: str) -> str | None:
    """Return the text of a field, the only field that a JSON body may have; None if absent.

    Raises: RefusedError: 400: the body is no JSON object, or has another field or type.
    """
    given = _object(body)
    if unknown := sorted(given.keys() - {field}):
        message = f'{unknown[0]}: unknown field "{unknown[0]}"; known fields: {field}'
        raise RefusedError(400, message)
    text = given.get(field)
    if text is None:
        return None
    if not isinstance(text, str) or not text.isprintable() or not text.strip():
        raise RefusedError(400, f"{field}: expected one line of text")
    if len(text) > _MOST_REASON_CHARS:
        message = f"{field}: must have at most {_MOST_REASON_CHARS} characters"
        raise RefusedError(400, message)
    return text


def _object(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RefusedError(400, f"the body is no JSON: {error}") from error
    if not isinstance(given, dict):
        raise RefusedError(400, "the body: expected an object")
    return given
