"""Parses Prometheus' response to an instant query into one number for each node.

The parser leaves out and counts a series that names no node, has no finite number, or names a node
that another series names too. A response that cannot be parsed is an error. The module does no I/O.
"""

import math
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import orjson

from kubextend.prometheus.endpoint import PrometheusError

__all__ = ["DROPPED", "Dropped", "NodeLabel", "Vector", "read_vector"]

Dropped: TypeAlias = Literal["no_node", "not_finite", "duplicate", "malformed"]
DROPPED: Final[tuple[Dropped, ...]] = ("no_node", "not_finite", "duplicate", "malformed")

_PORT = re.compile(r":[0-9]+\Z")
# The loop holds the GIL; a waiting verb gets it after this number of series.
_SERIES_AT_A_TIME = 500
_LONGEST_COMPLAINT = 200
# Each takes about 80 bytes in Python, a multiple of its bytes in JSON. A series has about 20.
_MOST_VALUES = 1_000_000
_NOTHING: Final = {"resultType": "vector", "result": None}


@dataclass(frozen=True, slots=True)
class NodeLabel:
    """The label of a Prometheus series that has the name of the node.

    Attributes:
        key: the name of the label; a port at the end of the label's value is ignored.
        pattern: a regular expression that matches the whole value without the port, with one group
            around the node's name; None: the value is the name.
    """

    key: str
    pattern: str | None = None

    def node_of(self, labels: Mapping[str, Any]) -> str | None:
        """Return the name of the node that a series' labels name; None if they name no node."""
        value = labels.get(self.key)
        if not isinstance(value, str):
            return None
        name = _PORT.sub("", value)
        if self.pattern is not None:
            match = re.fullmatch(self.pattern, name)
            name = (match[1] or "") if match else ""
        return name or None


@dataclass(frozen=True, slots=True)
class Vector:
    """The result of one instant query: a finite number by node.

    Attributes:
        by_node: name of a node -> number, for the nodes with exactly one series, whose number is
            finite.
        evaluated_at: when Prometheus evaluated the query, in seconds of Unix time by Prometheus'
            clock; None if the response has no valid series.
        dropped: reason -> number of series that were left out.
    """

    by_node: Mapping[str, float]
    evaluated_at: float | None = None
    dropped: Mapping[Dropped, int] = field(default_factory=dict)


def read_vector(body: bytes, label: NodeLabel) -> Vector:
    """Parse Prometheus' response to an instant query into a number for each node.

    If several series name one node, all these series are left out.

    Args:
        body: the body of the response.
        label: how a series names its node.

    Raises: PrometheusError: the body is no successful response, its result is no instant vector, or
        it has more than a million JSON values.
    """
    by_node: dict[str, float] = {}
    several: set[str] = set()
    dropped: Counter[Dropped] = Counter()
    newest: float | None = None
    for series in _unhurried(_result(body)):
        sample = _sample(series)
        if sample is None:
            dropped["malformed"] += 1
            continue
        at, value = sample
        newest = at if newest is None else max(newest, at)
        node = label.node_of(series["metric"] or {})
        if node is None:
            dropped["no_node"] += 1
        elif node in several or node in by_node:
            several.add(node)
            dropped["duplicate"] += 1 + (by_node.pop(node, None) is not None)
        elif not math.isfinite(value):
            # NaN beside a number is two series of one node too.
            several.add(node)
            dropped["not_finite"] += 1
        else:
            by_node[node] = value
    return Vector(by_node, newest, dict(dropped))


def _result(body: bytes) -> Sequence[Any]:
    # Each value is the first of an object or array, or comes after a comma.
    if body.count(b"{") + body.count(b"[") + body.count(b",") > _MOST_VALUES:
        message = f"the answer has more than {_MOST_VALUES} JSON values"
        raise PrometheusError(message)
    try:
        answer = orjson.loads(body)
        if answer["status"] != "success":
            raise PrometheusError(str(answer.get("error", "no success"))[:_LONGEST_COMPLAINT])
        # Go writes a list or an object that was never filled as null.
        data = answer["data"] if answer["data"] is not None else _NOTHING
        kind, result = data["resultType"], data["result"]
    except orjson.JSONDecodeError as error:
        message = f"the answer is no JSON: {error}"
        raise PrometheusError(message) from error
    except (TypeError, LookupError, AttributeError) as error:
        message = "the answer is not that of Prometheus' query API"
        raise PrometheusError(message) from error
    if kind != "vector" or not isinstance(result, list | None):
        message = f"the query yields a {str(kind)[:20]}, not an instant vector with a value a node"
        raise PrometheusError(message)
    return result or []


def _sample(series: Any) -> tuple[float, float] | None:
    """Return time and value of a series; None if one is missing, as in a native histogram."""
    try:
        sample = series["value"]
        at, value = sample
        if not isinstance(series["metric"], dict | None) or not isinstance(value, str):
            return None
        return (float(at), float(value)) if math.isfinite(at) else None
    except (TypeError, ValueError, LookupError, OverflowError):
        return None


def _unhurried(series: Sequence[Any]) -> Iterator[Any]:
    for start in range(0, len(series), _SERIES_AT_A_TIME):
        yield from series[start : start + _SERIES_AT_A_TIME]
        time.sleep(0)
