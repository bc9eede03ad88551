"""Prints the bytes that a pod takes in a pod store, and that it leaves once all pods are gone.

python pod_memory.py PODS NODES [details]: with details, the store keeps them too. The process does
nothing else, so that its resident memory is that of the store.
"""

import ctypes
import sys
from pathlib import Path

import pods
from kubextend import core


def resident() -> int:
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def main(count: int, nodes: int, *, details: bool) -> None:
    names = [f"ip-10-{i >> 16}-{i >> 8 & 255}-{i & 255}.example.internal" for i in range(nodes)]
    # As kubextend serve keeps pods where no plugin reads annotations.
    annotations: list[str] | None = None if details else []
    store = core.PodStore(annotations=annotations, max_pod_bytes=64 << 10, details=details)
    before = resident()
    relist = store.relist()
    for page in pods.pages(count, names):
        relist.page(page)
    relist.commit()
    del relist
    assert len(store) == len(store.snapshot()) == count
    pod = store.get(pods.uid(7))
    assert pod is not None
    assert not details or (pod.controller is not None and pod.controller.kind == "ReplicaSet")
    del pod
    full = resident()
    store.replace(b'{"metadata":{"resourceVersion":"2"},"items":[]}')
    assert len(store) == len(store.snapshot()) == 0
    sys.stdout.write(f"{(full - before) / count} {(resident() - before) / count}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), details="details" in sys.argv[3:])
