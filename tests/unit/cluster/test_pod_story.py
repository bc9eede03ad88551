"""What is read of a pod's Events: old and new ones have the time and the writer in other fields."""

from typing import Any

import orjson

from kubextend import cluster
from kubextend.cluster.api_call import Call


class _Api:
    """Answers each call with the same list of Events, and keeps the calls."""

    def __init__(self, *events: dict[str, Any]) -> None:
        self._body = orjson.dumps({"items": events})
        self.calls: list[Call] = []

    def request(self, call: Call) -> bytes:
        self.calls.append(call)
        return self._body


def _told(api: _Api) -> list[dict[str, Any]]:
    stand_in: Any = api
    return cluster.pod_events(stand_in, "ns", "some-uid")


def test_the_time_and_the_writer_of_an_event_are_found_wherever_its_writer_put_them() -> None:
    by_kubelet = {
        "type": "Warning",
        "reason": "FailedMount",
        "message": "no such volume",
        "source": {"component": "kubelet", "host": "n1"},
        "reportingComponent": "",
        "firstTimestamp": "2026-01-01T00:00:01Z",
        "lastTimestamp": "2026-01-01T00:00:04Z",
        "eventTime": None,
    }
    by_kube_scheduler = {
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": "0/3 nodes are available",
        "reportingComponent": "default-scheduler",
        "lastTimestamp": None,
        "eventTime": "2026-01-01T00:00:02.000000Z",
    }
    in_a_series = by_kube_scheduler | {
        "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:03.000000Z"}
    }
    api = _Api(by_kubelet, by_kube_scheduler, in_a_series, {})
    assert [(each["at"], each["from"], each["reason"]) for each in _told(api)] == [
        ("", "", ""),
        ("2026-01-01T00:00:02.000000Z", "default-scheduler", "FailedScheduling"),
        ("2026-01-01T00:00:03.000000Z", "default-scheduler", "FailedScheduling"),
        ("2026-01-01T00:00:04Z", "kubelet", "FailedMount"),
    ]
    assert api.calls[0].query["fieldSelector"] == "involvedObject.uid=some-uid"


def test_only_the_last_events_of_a_pod_are_told_and_no_long_text() -> None:
    events = [
        {"lastTimestamp": f"2026-01-01T00:{at // 60:02}:{at % 60:02}Z", "message": "x" * 5000}
        for at in range(70)
    ]
    told = _told(_Api(*events))
    assert [each["at"] for each in told] == [each["lastTimestamp"] for each in events[-50:]]
    assert {len(each["note"]) for each in told} == {1024}
