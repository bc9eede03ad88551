"""The answer of a verb, and answers that need no node: errors, empty results, bindings."""

from typing import Literal, NamedTuple, TypeAlias

import orjson

from kubextend import core

__all__ = [
    "NO_SCORES",
    "NO_VICTIMS",
    "REJECTS_ALL",
    "Answer",
    "Body",
    "binding",
    "filter_error",
]

Result: TypeAlias = Literal["ok", "error", "unknown_scheduler"]
# The body of a request or an answer; the memory of a large body may be used again.
Body: TypeAlias = bytes | core.BodyBuffer


class Answer(NamedTuple):
    """An answer for kube-scheduler, and how metrics count the call.

    Attributes:
        body: the body of the answer, as JSON.
        result: ``ok``; ``error`` if the verb could not do its work; ``unknown_scheduler`` if no
            profile is for the pod.
    """

    body: Body
    result: Result = "ok"


# HostPriorityList has no field for an error. kube-scheduler adds nothing for a node that the list
# does not name.
NO_SCORES = Answer(b"[]", "error")
# An empty map ends the preemption; any other answer would evict pods.
NO_VICTIMS = Answer(b'{"NodeNameToMetaVictims":{}}', "error")


def filter_error(text: str) -> Answer:
    """Build an ExtenderFilterResult with an Error, by which the pod's scheduling attempt fails."""
    nothing = ("Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes")
    result = dict.fromkeys(nothing) | {"Error": _encodable(text)}
    return Answer(orjson.dumps(result), "error")


def binding(error: str = "") -> Answer:
    """Build an ExtenderBindingResult; no error text means that the pod is bound."""
    return Answer(orjson.dumps({"Error": _encodable(error)}), "error" if error else "ok")


def _encodable(text: str) -> str:
    """Replace lone surrogates in a text, because JSON in UTF-8 cannot contain them."""
    return text.encode(errors="replace").decode()


# If Nodes and NodeNames are both null, kube-scheduler reads that no node is left. kubextend rejects
# unknown nodes this way where kube-scheduler would ignore an Error.
REJECTS_ALL = filter_error("")
