"""Generates seccomp profiles, and pods that name them."""

from typing import Final

from tests.ports.drawing import Draw, Json, object_of, pod_of

PROFILES: Final = "security-profiles-operator.x-k8s.io/v1beta1/seccompprofiles"
_SYSCALLS: Final = tuple(f"syscall{number}" for number in range(60))
_NAMES: Final = ("web", "db", "batch", "cache")
_NAMESPACES: Final = ("ns", "team")
_ANNOTATION: Final = "seccomp.security.alpha.kubernetes.io/pod"


def syscall_cluster(draw: Draw, _number: int, cluster: Json) -> Json:
    """Return a cluster whose pods run, most of them with a seccomp profile."""
    pods = [_profiled(draw, pod) for pod in cluster["pods"]]
    profiles = [
        _profile(draw, name, namespace, 25)
        for name in _NAMES
        for namespace in _NAMESPACES
        if draw.happens(0.9)
    ]
    if draw.happens(0.8):
        profiles.append(_profile(draw, "all-syscalls", "default", 60))
    return {**cluster, "pods": pods, "objects": {PROFILES: profiles}}


def syscall_pod(draw: Draw, name: str) -> Json:
    """Return a pod that most often names a seccomp profile."""
    containers = [{"name": "c0"}, {"name": "c1"}][: draw.one((1, 2))]
    return _profiled(draw, pod_of(name, {"containers": containers}))


def syscall_args(draw: Draw) -> Json:
    """Return arguments of SySched."""
    name = draw.one(("all-syscalls", "all-syscalls", "web", "none"))
    namespace = "ns" if name == "web" else "default"
    return {"defaultProfileNamespace": namespace, "defaultProfileName": name}


def _profile(draw: Draw, name: str, namespace: str, most: int) -> Json:
    rules = []
    for action in ("SCMP_ACT_ALLOW", "SCMP_ACT_LOG", "SCMP_ACT_ERRNO", "SCMP_ACT_TRACE"):
        if draw.happens(0.9 if action == "SCMP_ACT_ALLOW" else 0.3):
            names = sorted({draw.one(_SYSCALLS) for _ in range(draw.whole(0, most))})
            rules.append({"action": action, "names": names})
    version = "security-profiles-operator.x-k8s.io/v1beta1"
    spec = {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": rules}
    return object_of(version, "SeccompProfile", namespace, name, spec)


def _profiled(draw: Draw, pod: Json) -> Json:
    spec, metadata = dict(pod["spec"]), dict(pod["metadata"])
    if draw.happens(0.4):
        spec["securityContext"] = _context(draw)
    spec["containers"] = [
        {**container, "securityContext": _context(draw)} if draw.happens(0.3) else container
        for container in spec["containers"]
    ]
    if draw.happens(0.2):
        metadata["annotations"] = {_ANNOTATION: _path(draw), "note": "operator/ns/web.json"}
    status = {**pod["status"], "phase": "Running" if "nodeName" in spec else "Pending"}
    return {"metadata": metadata, "spec": spec, "status": status}


def _context(draw: Draw) -> Json:
    if draw.happens(0.2):
        return draw.one(({}, {"seccompProfile": {"type": "RuntimeDefault"}}))
    return {"seccompProfile": {"type": "Localhost", "localhostProfile": _path(draw)}}


def _path(draw: Draw) -> str:
    name, namespace = draw.one((*_NAMES, "missing")), draw.one(_NAMESPACES)
    path = f"operator/{namespace}/{name}.json"
    return draw.one((path, path, f"localhost/{path}", f"{name}.json", ""))
