"""A body takes little more memory than its length, whatever it holds."""

import json
import subprocess
import sys

import pytest

PEAK = """
import resource, sys
from kubextend import core
body = b"".join([sys.argv[1].encode(), b"{}" + b",{}" * 2_700_000, sys.argv[2].encode()])
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before = peak()
try:
    core.read_args(body)
except core.WireError as error:
    print(int(peak() - before), error)
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"Pod":{"spec":{"containers":[', "]}}}"),
        ('{"Pod":{"spec":{"tolerations":[', "]}}}"),
        ('{"Nodes":{"items":[', "]}}"),
    ],
)
def test_eight_megabytes_of_empty_objects_take_no_hundreds_more(before: str, after: str) -> None:
    command = [sys.executable, "-c", PEAK, before, after]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    megabytes, error = shown.split(" ", 1)
    assert "more elements than a body of this length may have" in error
    # Four times the body and 1 MiB, and what the allocator takes while a list grows.
    assert int(megabytes) <= 60


def test_what_large_pods_took_is_given_back_when_they_are_deleted() -> None:
    program = """
import ctypes, json, sys
from kubextend import core
trim = ctypes.CDLL("libc.so.6").malloc_trim
def resident():
    trim(0)
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6
def told(kind, number, **more):
    named = {"name": f"p{number}", "namespace": "t", "uid": f"u{number}"}
    store.apply(json.dumps({"type": kind, "object": {"metadata": named | more}}).encode())
store = core.PodStore()
told("ADDED", 0)
before = resident()
for number in range(1, 10_001):
    told("ADDED", number, annotations={"a": "x" * 3500 + str(number)})
held = resident()
for number in range(1, 10_001):
    told("DELETED", number)
print(json.dumps([held - before, resident() - before, len(store)]))
"""
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    held, left, pods = json.loads(shown)
    assert pods == 1
    assert held > 35
    assert left < 15
