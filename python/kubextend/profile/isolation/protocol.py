"""Messages to and from a child: a head in JSON, and byte parts after it.

The parent checks every answer, because any C code in the child may have written it.
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
"""The parts of a message; the first part is the head."""


class MessageError(ValueError):
    """An answer that no sound child would send."""


class Message(NamedTuple):
    """A message: a head, and the parts after it."""

    head: dict[str, Any]
    parts: Sequence[bytes] = ()

    def packed(self) -> Packed:
        """Return the parts to send."""
        return [orjson.dumps(self.head), *self.parts]

    @classmethod
    def unpacked(cls, packed: Packed) -> "Message":
        """Read a message from its parts.

        Raises: MessageError: the parts are no message.
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
        """Return the child's traceback."""
        return f"\n{self.args[0]}"


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a call.

    Attributes:
        text: what the plugin raised, or what is wrong with its answer.
        point: the framework's name of the method; empty outside of extension points.
        node: the node that the failure is about; empty where it is about none, or about many.
        answered: the plugin itself said, by a Status, that it cannot do its part.
        traceback: the child's traceback, for the log.
    """

    text: str
    point: str = ""
    node: str = ""
    answered: bool = False
    traceback: str = ""

    @property
    def cause(self) -> ChildTraceback:
        """The child's traceback, as the cause of an error that is raised here."""
        return ChildTraceback(self.traceback)

    def packed(self) -> Packed:
        """Return the message that reports this failure."""
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
        """Read a failure from an answer; None where the answer reports none."""
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
    """Pack a Status."""
    return Message({"status": _written(status)})


def unpacked_status(answer: Message) -> Status:
    """Unpack a Status.

    Raises: MessageError: the answer holds no Status.
    """
    return _status(answer.head.get("status"))


def packed_pre_filter(result: PreFilterResult, status: Status) -> Message:
    """Pack the nodes that PreFilter leaves, and its Status."""
    names = None
    if result.node_names is not None:
        # A name that is no text names no node.
        names = [_encodable(name) for name in result.node_names if isinstance(name, str)]
    return Message({"status": _written(status), "names": names})


def unpacked_pre_filter(answer: Message) -> tuple[PreFilterResult, Status]:
    """Unpack the nodes that PreFilter leaves, and its Status.

    Raises: MessageError: the answer holds something else.
    """
    names = answer.head.get("names")
    if names is not None and not _are_texts(names):
        message = "names that are no list of texts"
        raise MessageError(message)
    result = PreFilterResult(None if names is None else frozenset(names))
    return result, unpacked_status(answer)


def packed_rejections(rejections: Sequence[Rejection]) -> Message:
    """Pack rejections: the statuses into the head, the nodes of each into a part."""
    statuses = [_written(rejection.status) for rejection in rejections]
    return Message({"rejections": statuses}, [rejection.nodes.pack() for rejection in rejections])


def unpacked_rejections(answer: Message, nodes: int) -> list[Rejection]:
    """Unpack rejections.

    Args:
        answer: a message of rejections.
        nodes: how many nodes the rejections are about.

    Raises: MessageError: the answer holds something else.
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
    """Pack scores as int64."""
    return Message({}, [scores.tobytes()])


def unpacked_scores(answer: Message, nodes: int) -> memoryview:
    """Unpack scores: int64, shape ``(nodes,)``.

    Raises: MessageError: the answer holds something else.
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
    message = "an invalid status"
    raise MessageError(message)


def _are_texts(names: object) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)


def _encodable(text: str) -> str:
    """Replace lone surrogates in a text, because no JSON writer takes them."""
    return text.encode(errors="backslashreplace").decode()
