"""What is asked of a child and what it answers: a head in JSON, and parts of bytes after it.

An answer is taken apart with care: whoever wrote it may have been any C code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from kubextend import core
from kubextend.framework.plugin import PreFilterResult, Rejection
from kubextend.framework.status import Code, Status

__all__ = [
    "ChildTraceback",
    "Failure",
    "Message",
    "MessageError",
    "Packed",
    "packed_pre_filter",
    "packed_rejections",
    "packed_scores",
    "packed_status",
    "unpacked_pre_filter",
    "unpacked_rejections",
    "unpacked_scores",
    "unpacked_status",
]

_INT64: Final = 8

Packed: TypeAlias = list[bytes]
"""The parts of a message, its head first."""


class MessageError(ValueError):
    """A child answered what no child of ours would."""


class Message(NamedTuple):
    """A head, and the parts after it."""

    head: dict[str, Any]
    parts: Sequence[bytes] = ()

    def packed(self) -> Packed:
        """What is sent."""
        return [orjson.dumps(self.head), *self.parts]

    @classmethod
    def unpacked(cls, packed: Packed) -> "Message":
        """What was sent.

        Raises: MessageError: it is something else.
        """
        try:
            head = orjson.loads(packed[0])
        except (IndexError, ValueError) as error:
            raise MessageError(str(error)) from error
        if not isinstance(head, dict):
            message = "a head that is no object"
            raise MessageError(message)
        return cls(head, packed[1:])


class ChildTraceback(Exception):  # noqa: N818  the cause of an error, never raised itself
    """Where in the child an error comes from."""

    def __str__(self) -> str:
        """The traceback as the child had it."""
        return f"\n{self.args[0]}"


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong in a call.

    Attributes:
        text: what the plugin raised, or what is wrong with its answer.
        point: the framework's name of the method; empty outside of extension points.
        node: the node that it is about; empty where it is about none, or about many.
        answered: the plugin itself said, by a Status, that it cannot do its part.
        traceback: for the log.
    """

    text: str
    point: str = ""
    node: str = ""
    answered: bool = False
    traceback: str = ""

    @property
    def cause(self) -> ChildTraceback:
        """The traceback, for an error that is raised here."""
        return ChildTraceback(self.traceback)

    def packed(self) -> Packed:
        """The answer that says so."""
        told = {
            "text": _encodable(self.text),
            "point": self.point,
            "node": _encodable(self.node),
            "answered": self.answered,
            "traceback": _encodable(self.traceback),
        }
        return Message({"failure": told}).packed()

    @classmethod
    def of(cls, answer: Message) -> "Failure | None":
        """What the answer says of a failure; None where it is none."""
        told = answer.head.get("failure")
        if told is None:
            return None
        try:
            return cls(
                str(told["text"]),
                str(told["point"]),
                str(told["node"]),
                answered=told["answered"] is True,
                traceback=str(told["traceback"]),
            )
        except (KeyError, TypeError) as error:
            raise MessageError(str(error)) from error


def packed_status(status: Status) -> Message:
    """The Status alone."""
    return Message({"status": _written(status)})


def unpacked_status(answer: Message) -> Status:
    """The Status of such an answer.

    Raises: MessageError: it is none.
    """
    return _status(answer.head.get("status"))


def packed_pre_filter(result: PreFilterResult, status: Status) -> Message:
    """What PreFilter leaves, and what it says."""
    names = None
    if result.node_names is not None:
        # No node has a name that is no text.
        names = [_encodable(name) for name in result.node_names if isinstance(name, str)]
    return Message({"status": _written(status), "names": names})


def unpacked_pre_filter(answer: Message) -> tuple[PreFilterResult, Status]:
    """The same again.

    Raises: MessageError: it is something else.
    """
    names = answer.head.get("names")
    if names is not None and not _are_texts(names):
        message = "names that are no list of texts"
        raise MessageError(message)
    result = PreFilterResult(None if names is None else frozenset(names))
    return result, unpacked_status(answer)


def packed_rejections(rejections: Sequence[Rejection]) -> Message:
    """Statuses in the head, and the nodes of each in a part."""
    statuses = [_written(rejection.status) for rejection in rejections]
    return Message({"rejections": statuses}, [rejection.nodes.pack() for rejection in rejections])


def unpacked_rejections(answer: Message, nodes: int) -> list[Rejection]:
    """The same again.

    Args:
        answer: a message of rejections.
        nodes: how many nodes they are about.

    Raises: MessageError: it is something else.
    """
    statuses = answer.head.get("rejections")
    if not isinstance(statuses, list) or len(statuses) != len(answer.parts):
        message = "rejections without their nodes"
        raise MessageError(message)
    try:
        masks = [core.Mask.unpack(part, nodes) for part in answer.parts]
    except ValueError as error:
        raise MessageError(str(error)) from error
    return [Rejection(mask, _status(said)) for mask, said in zip(masks, statuses, strict=True)]


def packed_scores(scores: memoryview) -> Message:
    """int64, as they are."""
    return Message({}, [scores.tobytes()])


def unpacked_scores(answer: Message, nodes: int) -> memoryview:
    """The same again: int64, shape ``(nodes,)``.

    Raises: MessageError: it is something else.
    """
    if len(answer.parts) != 1 or len(answer.parts[0]) != nodes * _INT64:
        message = "scores that are not one number a node"
        raise MessageError(message)
    return memoryview(answer.parts[0]).cast("q")


def _written(status: Status) -> list[Any]:
    return [int(status.code), status.reason, _encodable(str(status.detail))]


def _status(said: object) -> Status:
    match said:
        case [int(code), str(reason), str(detail)]:
            try:
                return Status(Code(code), reason, detail)
            except ValueError as error:
                raise MessageError(str(error)) from error
    message = "a status that is none"
    raise MessageError(message)


def _are_texts(names: object) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)


def _encodable(text: str) -> str:
    """The text without lone surrogates, which no JSON writer takes."""
    return text.encode(errors="backslashreplace").decode()
