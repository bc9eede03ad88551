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


LONG = """
import sys
from kubextend import core
def many(piece, number, size):
    return ",".join(piece.replace("NAME", f"{i:04}".ljust(size, "a")) for i in range(number))
mebibytes = 16
size = (mebibytes << 20) // 1000
amounts = many('"NAME":"1"', 1000, size)
dense = many("{}", 140_000, 4)
start = '{"Pod":{"spec":{"initContainers":['
asks = '"restartPolicy":"Always","resources":{"requests":{%s}}}' % amounts
bodies = {
    "sidecar": start + '{' + asks + "]}}}",
    "sidecar beside many": start + "{" + asks + '],"containers":[' + dense + "]}}}",
    "status of many": start + many('{"name":"x","restartPolicy":"Always"}', 16, 1)
        + ']},"status":{"initContainerStatuses":[{"name":"x",' + asks + "]}}}",
    "overhead": '{"Pod":{"spec":{"overhead":{%s}}}}' % amounts,
    "labels": '{"Pod":{"metadata":{"labels":{%s}}}}' % amounts,
}
body = bodies[sys.argv[1]].encode()
del bodies, amounts, asks
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
open("/proc/self/clear_refs", "w").write("5")
before = resident()
args = core.read_args(body)
hwm = next(l for l in open("/proc/self/status") if l.startswith("VmHWM"))
print((int(hwm.split()[1]) * 1024 - before) / len(body), args.pod is not None)
"""


@pytest.mark.parametrize(
    ("kind", "most"),
    [
        ("sidecar", 2.0),
        ("status of many", 2.0),
        ("overhead", 2.0),
        ("labels", 2.0),
        ("sidecar beside many", 4.5),
    ],
)
def test_long_names_are_in_memory_once(kind: str, most: float) -> None:
    command = [sys.executable, "-c", LONG, kind]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    times, read = shown.split()
    assert read == "True"
    assert float(times) < most


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
