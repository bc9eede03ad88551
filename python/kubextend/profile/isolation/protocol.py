"""The messages between kubextend and the child process of a plugin: a JSON head and byte parts.

The parent checks every reply, because C code in the child may write anything.
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
"""A message as a list of byte parts; the first part is the head as JSON."""


class MessageError(ValueError):
    """A message is not as the protocol between parent and child requires."""


class Message(NamedTuple):
    """A message between parent and child.

    Attributes:
        head: a JSON object.
        parts: byte strings, of which the head tells the meaning.
    """

    head: dict[str, Any]
    parts: Sequence[bytes] = ()

    def packed(self) -> Packed:
        """Return the message as byte parts to send."""
        return [orjson.dumps(self.head), *self.parts]

    @classmethod
    def unpacked(cls, packed: Packed) -> "Message":
        """Parse a message from received byte parts.

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
    """A traceback of the child process, as the ``__cause__`` of an error in the parent."""

    def __str__(self) -> str:
        """Return the traceback of the child process, on lines of its own."""
        return f"\n{self.args[0]}"


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a plugin's call in the child process.

    Attributes:
        text: what the plugin raised, or what is wrong with its result.
        point: the framework's name of the method, such as ``Filter``; "" outside of extension
            points.
        node: the name of the node that the failure is about; "" if it is not about one node.
        answered: whether the plugin returned a Status with the code ERROR, and did not raise.
        traceback: the traceback of the child process, for the log.
    """

    text: str
    point: str = ""
    node: str = ""
    answered: bool = False
    traceback: str = ""

    @property
    def cause(self) -> ChildTraceback:
        """The traceback of the plugin's child process, as the ``__cause__`` of an error."""
        return ChildTraceback(self.traceback)

    def packed(self) -> Packed:
        """Return the byte parts of the message by which the child reports this failure."""
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
        """Read a failure from a child's reply; return None if the reply reports no failure.

        Raises: MessageError: the failure is not as the protocol requires.
        """
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
    """Pack a plugin's Status into a message."""
    return Message({"status": _written(status)})


def unpacked_status(answer: Message) -> Status:
    """Unpack a plugin's Status from a message.

    Raises: MessageError: the message has no valid Status.
    """
    return _status(answer.head.get("status"))


def packed_pre_filter(result: PreFilterResult, status: Status) -> Message:
    """Pack the result of PreFilter, its set of nodes and its Status, into a message."""
    names = None
    if result.node_names is not None:
        # A name that is no text names no node.
        names = [_encodable(name) for name in result.node_names if isinstance(name, str)]
    return Message({"status": _written(status), "names": names})


def unpacked_pre_filter(answer: Message) -> tuple[PreFilterResult, Status]:
    """Unpack the result of PreFilter, its set of nodes and its Status, from a message.

    Raises: MessageError: the message has no valid result.
    """
    names = answer.head.get("names")
    if names is not None and not _are_texts(names):
        message = "names that are no list of texts"
        raise MessageError(message)
    result = PreFilterResult(None if names is None else frozenset(names))
    return result, unpacked_status(answer)


def packed_rejections(rejections: Sequence[Rejection]) -> Message:
    """Pack a Filter's rejections into a message.

    The head has the statuses; one byte part per rejection has the mask of its nodes.
    """
    statuses = [_written(rejection.status) for rejection in rejections]
    return Message({"rejections": statuses}, [rejection.nodes.pack() for rejection in rejections])


def unpacked_rejections(answer: Message, nodes: int) -> list[Rejection]:
    """Unpack a Filter's rejections from a message.

    Args:
        answer: the message.
        nodes: how many nodes the filtered call was about: the length of each mask.

    Raises: MessageError: the message has no valid rejections.
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
    """Pack the scores of all nodes, int64, into a message."""
    return Message({}, [scores.tobytes()])


def unpacked_scores(answer: Message, nodes: int) -> memoryview:
    """Unpack the scores of all nodes from a message: int64, shape ``(nodes,)``.

    Raises: MessageError: the message does not have one score for each node.
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
    """Replace lone surrogates in a text, which UTF-8 and so JSON cannot encode."""
    return text.encode(errors="backslashreplace").decode()
