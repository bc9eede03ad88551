"""Formats the log lines of the whole process, as text or as JSON.

Modules log through ``logging.getLogger(__name__)`` and pass fields as ``extra``. Only the command
line calls ``configure``.
"""

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

__all__ = [
    "FORMATS",
    "LEVELS",
    "AtMost",
    "Format",
    "Level",
    "configure",
    "printable",
    "shortened",
]

Format: TypeAlias = Literal["text", "json"]
Level: TypeAlias = Literal["debug", "info", "warning", "error"]
FORMATS: Final[tuple[Format, ...]] = ("text", "json")
LEVELS: Final[tuple[Level, ...]] = ("debug", "info", "warning", "error")

_OF_EVERY_RECORD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# uvicorn puts a coloured copy of the message there.
_LEFT_OUT = _OF_EVERY_RECORD | {"color_message"}


def configure(level: Level = "info", fmt: Format = "text") -> None:
    """Make every logger of the process write its lines to stderr.

    Args:
        level: the lowest level of a line that is written.
        fmt: ``text`` for lines of text, ``json`` for one JSON object a line.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if fmt == "json" else _TextLines())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())


def shortened(text: str, most: int) -> str:
    """Return a text, or its beginning and ``...`` if it has more than ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def printable(text: str) -> str:
    r"""Return a text with unprintable characters escaped, such as a line end as ``\n``.

    The name of a pod or the text of a plugin may contain line ends, terminal escape sequences and
    marks that reverse the direction of writing; unescaped, they could forge log lines.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


class AtMost(logging.Filter):
    """A logging filter that passes at most a number of lines a second.

    The first line after dropped lines has the field ``lines_left_out`` with their number.

    Args:
        lines: the most lines a second.
        clock: returns the present time in monotonic seconds.
    """

    def __init__(self, lines: int, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._lines = lines
        self._clock = clock
        self._lock = threading.Lock()
        self._until_s = float("-inf")
        self._passed = 0
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write a log line; False if this second's limit of lines is reached."""
        now_s = self._clock()
        with self._lock:
            if now_s >= self._until_s:
                self._until_s = now_s + 1
                self._passed = 0
            if self._passed >= self._lines:
                self._left_out += 1
                return False
            self._passed += 1
            left_out, self._left_out = self._left_out, 0
        if left_out:
            record.lines_left_out = left_out
        return True


class _JsonLines(logging.Formatter):
    """Formats log records as JSON: time, level, logger, message, and the fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in _facts(record).items() if key not in line}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        # As ASCII: a terminal may obey U+009B, and a reader of lines may split at U+2028. DEL is
        # the one control character that JSON leaves as it is.
        return json.dumps(line, default=str).replace("\x7f", "\\u007f")


class _TextLines(logging.Formatter):
    """Formats log records as ``TIME LEVEL logger: message key=value``, and indents tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        facts = "".join(f" {key}={_shown(value)}" for key, value in _facts(record).items())
        message = printable(record.getMessage())
        line = f"{_time(record)} {record.levelname:7} {record.name}: {message}{facts}"
        if record.exc_info:
            line += _indented(self.formatException(record.exc_info))
        if record.stack_info:
            line += _indented(self.formatStack(record.stack_info))
        return line


def _indented(text: str) -> str:
    """Indent the lines of a traceback, so that nobody takes one for a log line."""
    return "".join(f"\n  {printable(line)}" for line in text.split("\n"))


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _facts(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _LEFT_OUT}


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    plain = text.isprintable() and text and not set(text) & set(' "=')
    return text if plain else json.dumps(text)
