"""Generates clusters like a cloud provider's, and kube-scheduler's requests about their nodes.

Nodes are written as Go writes a ``v1.Node``: fields in the order of the struct, maps by key. The
shape is that of the recorded requests in ``tests/data/wire``. The same seed gives the same bytes.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import orjson

__all__ = ["RDMA", "Cluster"]

_Object: TypeAlias = dict[str, Any]

RDMA = "node.kubernetes.io/rdma-enabled"

_SEED = 36
_IMAGES = 50
# Of each five nodes in a row two have the RDMA label, so that 40 % of every prefix have the label.
_RDMA_OF_FIVE = (True, True, False, False, False)
_REGISTRY = "602401143452.dkr.ecr.cn-north-1.amazonaws.com/platform"
_MADE = "2026-11-21T01:36:24Z"
_HEARTBEAT = "2026-11-20T10:11:12Z"
_TRANSITION = "2026-11-01T10:11:12Z"
_CONDITIONS = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "KubeletReady", "kubelet is posting ready status"),
)


@dataclass(frozen=True)
class Cluster:
    """Generated nodes, and bodies of requests about them.

    Attributes:
        names: the name of every node, in the order of the requests.
        items: every node as compact JSON.
        has_rdma: for every node, whether the node has the RDMA label.
    """

    names: tuple[str, ...]
    items: tuple[bytes, ...]
    has_rdma: tuple[bool, ...]

    @classmethod
    def of(cls, size: int, *, managed_fields: bool = False) -> "Cluster":
        """Generate a cluster of ``size`` nodes, 16 KB each, 19 KB with ``managed_fields``."""
        rng = random.Random(_SEED)  # noqa: S311  data for a stopwatch
        has_rdma: list[bool] = []
        while len(has_rdma) < size:
            has_rdma += rng.sample(_RDMA_OF_FIVE, len(_RDMA_OF_FIVE))
        nodes = [_node(index, rng, rdma=has_rdma[index]) for index in range(size)]
        if managed_fields:
            for node in nodes:
                node["metadata"]["managedFields"] = _managed_fields(node)
        return cls(
            tuple(node["metadata"]["name"] for node in nodes),
            tuple(orjson.dumps(node) for node in nodes),
            tuple(has_rdma[:size]),
        )

    def first(self, size: int) -> "Cluster":
        """Return the cluster of the first ``size`` nodes alone."""
        return Cluster(self.names[:size], self.items[:size], self.has_rdma[:size])

    @cached_property
    def kept_items(self) -> list[bytes]:
        """The JSON of each node that a ``high-comm`` pod may run on."""
        return [item for item, rdma in zip(self.items, self.has_rdma, strict=True) if rdma]

    @cached_property
    def kept_names(self) -> list[str]:
        """The names of the nodes that a ``high-comm`` pod may run on."""
        return [name for name, rdma in zip(self.names, self.has_rdma, strict=True) if rdma]

    @cached_property
    def rejected_names(self) -> list[str]:
        """The names of the nodes that the filter rejects."""
        return [name for name, rdma in zip(self.names, self.has_rdma, strict=True) if not rdma]

    def full_body(self, pod_name: str) -> bytes:
        """Return ExtenderArgs with whole nodes, for a pod that asks for RDMA."""
        nodes = b'{"metadata":{},"items":[' + b",".join(self.items) + b"]}"
        return _args(pod_name, nodes, b"null")

    def names_body(self, pod_name: str) -> bytes:
        """Return ExtenderArgs with names of nodes alone, for a pod that asks for RDMA."""
        return _args(pod_name, b"null", orjson.dumps(self.names))

    def node_list(self) -> bytes:
        """Return the NodeList of the cluster as kube-apiserver writes it."""
        head = (
            b'{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"100"},"items":['
        )
        return head + b",".join(self.items) + b"]}"


def _args(pod_name: str, nodes: bytes, names: bytes) -> bytes:
    pod = orjson.dumps(_pod(pod_name))
    return b'{"Pod":' + pod + b',"Nodes":' + nodes + b',"NodeNames":' + names + b"}"


def _pod(name: str) -> _Object:
    return {
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": "ac30c2ca-6827-4ae8-a006-f820b5c392c3",
            "resourceVersion": "22804",
            "generation": 1,
            "creationTimestamp": _MADE,
            "labels": {"high-comm": "true"},
        },
        "spec": {
            "containers": [
                {
                    "name": "worker",
                    "image": "worker:1",
                    "resources": {"requests": {"cpu": "5", "memory": "1Gi"}},
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [{"operator": "Exists"}],
            "priority": 0,
            "enableServiceLinks": True,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def _node(index: int, rng: random.Random, *, rdma: bool) -> _Object:
    address = f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}"
    name = f"ip-{address.replace('.', '-')}.cn-north-1.compute.internal"
    zone = f"cn-north-1{'abc'[index % 3]}"
    instance = f"i-{index:017x}"
    labels = _labels(name, zone, index)
    if rdma:
        labels[RDMA] = "true"
    return {
        "metadata": {
            "name": name,
            "uid": f"1e9a5bbb-2f9b-4e1b-b03d-{index:012x}",
            "resourceVersion": str(2_000 + index),
            "creationTimestamp": _MADE,
            "labels": dict(sorted(labels.items())),
            "annotations": {
                "alpha.kubernetes.io/provided-node-ip": address,
                "csi.volume.kubernetes.io/nodeid": _as_json(
                    {"ebs.csi.aws.com": instance, "efs.csi.aws.com": instance}
                ),
                "node.alpha.kubernetes.io/ttl": "15",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {"providerID": f"aws:///{zone}/{instance}"},
        "status": _status(name, address, rng),
    }


def _labels(name: str, zone: str, index: int) -> dict[str, str]:
    """Return 31 labels, as the kubelet, the cloud provider and node feature discovery set them."""
    features = {f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{i}": "true" for i in range(14)}
    return features | {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": "m6i.8xlarge",
        "beta.kubernetes.io/os": "linux",
        "failure-domain.beta.kubernetes.io/region": "cn-north-1",
        "failure-domain.beta.kubernetes.io/zone": zone,
        "k8s.io/cloud-provider-aws": "9dd4e461268c8034f5c8564e155c67a6",
        "karpenter.sh/capacity-type": ("spot", "on-demand")[index % 2],
        "karpenter.sh/nodepool": f"pool-{index % 8}",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "m6i.8xlarge",
        "node.kubernetes.io/lifecycle": "normal",
        "team": f"team-{index % 5}",
        "topology.ebs.csi.aws.com/zone": zone,
        "topology.kubernetes.io/region": "cn-north-1",
        "topology.kubernetes.io/zone": zone,
    }


def _status(name: str, address: str, rng: random.Random) -> _Object:
    resources = {
        "cpu": "31850m",
        "ephemeral-storage": "95491281146",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": "126345456Ki",
        "pods": "110",
    }
    return {
        "capacity": resources,
        "allocatable": resources,
        "conditions": [
            {
                "type": kind,
                "status": "True" if kind == "Ready" else "False",
                "lastHeartbeatTime": _HEARTBEAT,
                "lastTransitionTime": _TRANSITION,
                "reason": reason,
                "message": message,
            }
            for kind, reason, message in _CONDITIONS
        ],
        "addresses": [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": _node_info(rng),
        "images": [_image(service, rng) for service in range(_IMAGES)],
    }


def _node_info(rng: random.Random) -> _Object:
    return {
        "machineID": rng.randbytes(16).hex(),
        "systemUUID": rng.randbytes(16).hex(),
        "bootID": rng.randbytes(18).hex(),
        "kernelVersion": "6.1.112-124.190.amzn2023.x86_64",
        "osImage": "Amazon Linux 2023.6",
        "containerRuntimeVersion": "containerd://1.7.22",
        "kubeletVersion": "v1.36.3",
        "kubeProxyVersion": "v1.36.3",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def _image(service: int, rng: random.Random) -> _Object:
    repository = f"{_REGISTRY}/service-{service}"
    return {
        "names": [
            f"{repository}@sha256:{rng.randbytes(32).hex()}",
            f"{repository}:v1.{service}.{rng.randrange(10)}",
        ],
        "sizeBytes": rng.randrange(100_000_000, 1_000_000_000),
    }


def _managed_fields(node: _Object) -> list[_Object]:
    """Return the managedFields of a node as kube-apiserver keeps them."""
    status = node["status"]
    of_status = {
        "f:addresses": _keyed(status["addresses"]),
        "f:allocatable": _owned(status["allocatable"]),
        "f:capacity": _owned(status["capacity"]),
        "f:conditions": _keyed(status["conditions"]),
        "f:daemonEndpoints": {"f:kubeletEndpoint": {"f:Port": {}}},
        "f:images": {},
        "f:nodeInfo": {f"f:{key}": {} for key in sorted(status["nodeInfo"])},
    }
    of_metadata = {
        f"f:{field}": _owned(node["metadata"][field]) for field in ("annotations", "labels")
    }
    of_rest = {"f:metadata": of_metadata, "f:spec": {"f:providerID": {}}}
    return [
        _entry("kubelet", {"f:status": of_status}) | {"subresource": "status"},
        _entry("cloud-controller-manager", of_rest),
    ]


def _entry(manager: str, fields: _Object) -> _Object:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": _MADE,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


def _owned(fields: _Object) -> _Object:
    return {".": {}} | {f"f:{key}": {} for key in fields}


def _keyed(entries: Sequence[_Object]) -> _Object:
    """Return the managed fields of a list whose entries are merged by their ``type``."""
    ordered = sorted(entries, key=lambda entry: str(entry["type"]))
    owned = {f"k:{_as_json({'type': entry['type']})}": _owned(entry) for entry in ordered}
    return {".": {}} | owned


def _as_json(value: _Object) -> str:
    return orjson.dumps(value).decode()
