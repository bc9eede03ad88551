"""The states of an HTTP connection: which part of a request is read, how far an answer is."""

from enum import Enum, auto

__all__ = ["AnswerPhase", "Reading"]


class Reading(Enum):
    """The part of a request to which the next byte from the client belongs."""

    REQUEST = auto()
    """The first byte of a request; the connection is idle if no answer is due."""
    HEAD = auto()
    """The head of a request, or empty lines before the head."""
    BODY = auto()
    """The body of a request, with its chunk framing and trailers."""
    NOTHING = auto()
    """No request: the connection ends after the last answer, and drops bytes that still come."""


class AnswerPhase(Enum):
    """How far the answer to one request is."""

    DUE = auto()
    """The application has not begun the answer."""
    BEGUN = auto()
    """The application has begun the answer; some of it may be with the client."""
    COMPLETE = auto()
    """The application has sent the whole answer."""
    UNWANTED = auto()
    """The client is gone, or got a refusal in place of the answer; nothing more is written."""
