"""The small answers of every verb, those that name no node."""

from typing import Literal, NamedTuple, TypeAlias

import orjson

from kubextend import core

__all__ = [
    "NO_SCORES",
    "NO_VICTIMS",
    "REJECTS_ALL",
    "Answer",
    "Body",
    "QuickVerb",
    "Verb",
    "binding",
    "failure",
    "filter_error",
    "unable",
]

QuickVerb: TypeAlias = Literal["filter", "prioritize", "preempt"]
Verb: TypeAlias = QuickVerb | Literal["bind"]
Result: TypeAlias = Literal["ok", "error", "unknown_scheduler"]
# Of a request or of an answer: a large one may be in memory that is used again.
Body: TypeAlias = bytes | core.BodyBuffer

_INTERNAL = "kubextend failed internally; its log says where"


class Answer(NamedTuple):
    """What goes back to kube-scheduler, and how the call counts.

    Attributes:
        body: the JSON.
        result: ``ok``, or ``error`` where the verb could not do its work; ``unknown_scheduler``
            where no profile is for the pod.
    """

    body: Body
    result: Result = "ok"


# The list has no room for an error, and kube-scheduler adds nothing for a host it does not name.
NO_SCORES = Answer(b"[]", "error")
# An empty map ends the preemption; anything else would evict.
NO_VICTIMS = Answer(b'{"NodeNameToMetaVictims":{}}', "error")

# Neither Nodes nor NodeNames: kube-scheduler reads that no node is left. It is how to reject nodes
# that we do not know, where an Error would be ignored.
REJECTS_ALL = Answer(
    b'{"Nodes":null,"NodeNames":null,"FailedNodes":null,'
    b'"FailedAndUnresolvableNodes":null,"Error":""}',
    "error",
)


def filter_error(text: str) -> Answer:
    """ExtenderFilterResult that fails the attempt, with every field under its Go name."""
    result = {
        "Nodes": None,
        "NodeNames": None,
        "FailedNodes": None,
        "FailedAndUnresolvableNodes": None,
        "Error": _encodable(text),
    }
    return Answer(orjson.dumps(result), "error")


def binding(error: str = "") -> Answer:
    """ExtenderBindingResult; no error text means that the pod is bound."""
    return Answer(orjson.dumps({"Error": _encodable(error)}), "error" if error else "ok")


def failure(verb: Verb) -> Body:
    """What a verb answers when kubextend itself failed in the middle of it."""
    return unable(verb, _INTERNAL).body


def unable(verb: Verb, why: str) -> Answer:
    """What a verb answers where it decides nothing, so that no pod is placed or evicted for it."""
    match verb:
        case "filter":
            return filter_error(why)
        case "prioritize":
            return NO_SCORES
        case "preempt":
            return NO_VICTIMS
        case "bind":
            return binding(why)


def _encodable(text: str) -> str:
    """The text without lone surrogates, which no JSON writer takes."""
    return text.encode(errors="replace").decode()
