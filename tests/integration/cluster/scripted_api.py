"""The scripted API, for tests that have not moved to the doors yet."""

from tests.doors.scripted_api import ScriptedApi
from tests.doors.scripted_requests import (
    Request,
    gone_event,
    lost_answer,
    lost_request,
    refusing,
    status_of,
)

__all__ = [
    "Request",
    "ScriptedApi",
    "gone_event",
    "lost_answer",
    "lost_request",
    "refusing",
    "status_of",
]
