"""SySched: pods run beside pods that may call the same system calls, by their seccomp profiles.

Source: kubernetes-sigs/scheduler-plugins v0.33.5 pkg/sysched/sysched.go
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from operator import or_
from typing import Any, Final, TypeAlias

from kubextend import core
from kubextend.errors import KubextendError, TruncatedPodError
from kubextend.framework.args_model import ArgsModel
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import Handle
from kubextend.framework.informer import Informer, KubeObject
from kubextend.framework.plugin import Scores

__all__ = ["SySched", "SySchedArgs"]

_PROFILES: Final = "security-profiles-operator.x-k8s.io/v1beta1/seccompprofiles"
_ANNOTATION: Final = "seccomp.security.alpha.kubernetes.io"
_ALLOWED: Final = frozenset({"SCMP_ACT_ALLOW", "SCMP_ACT_LOG"})
# How many deleted pods may be remembered beside as many as there are pods.
_SPARE_PODS: Final = 100
# A tenant may name thousands in one pod, and each is looked up.
_MOST_PROFILES: Final = 32
# A tenant may name profiles that are not there, in one pod after the other.
_MOST_TOLD: Final = 100
# As for each object of the Kubernetes API.
_LONGEST_NAME: Final = 253

ProfileName: TypeAlias = tuple[str, str]
"""The namespace and the name of a SeccompProfile.

From version 0.9 on, the profiles of the Security Profiles Operator are in no namespace: in its
place, a path has the folder of the operator.
"""


class SySchedArgs(ArgsModel):
    """Arguments of SySched, with the names and defaults of the Go plugin.

    Attributes:
        default_profile_namespace: the namespace of the SeccompProfile of pods without a profile.
        default_profile_name: the name of the SeccompProfile of pods without a profile.
    """

    default_profile_namespace: str = "default"
    default_profile_name: str = "all-syscalls"


class SySched:
    """Scores nodes by the system calls that pods may not call and their neighbours may.

    A pod is the safer, the fewer system calls other pods of its node may call beyond its own.
    """

    name = "SySched"
    Args = SySchedArgs
    informers = (_PROFILES,)
    needs_pods = True
    needs_raw = True

    def __init__(self, args: SySchedArgs, handle: Handle) -> None:
        self._default = (args.default_profile_namespace, args.default_profile_name)
        self._handle = handle
        self._profiles = handle.informer(_PROFILES)
        # UID -> the pod's node, and the profiles that the pod named.
        self._of_pods: dict[str, tuple[str, frozenset[ProfileName]]] = {}
        self._most_remembered = _SPARE_PODS
        self._told: set[ProfileName] = set()

    def score_nodes(self, state: CycleState, pod: core.Pod, nodes: core.Nodes) -> list[int]:
        """Return for each node the calls, beyond their own, that its pods and the new pod see."""
        pods = self._handle.pods(state)
        allowed = _Allowed(self._profiles, self._default)
        own = allowed.by_all(_named_by(pod))
        scores = [0] * len(nodes)
        if own and pods is not None:
            scores = [
                _beyond(own, Counter(map(allowed.by_all, self._on_node(node))))
                for node in nodes.with_pods(pods)
            ]
            self._forget_deleted(pods)
        self._tell(allowed.missing)
        return scores

    def normalize_score(self, state: CycleState, pod: core.Pod, scores: Scores) -> Scores:
        """Return 100 for a node without foreign system calls, and 0 for the node with the most.

        If no node has any, each node gets 100.
        """
        del state, pod
        return core.normalize(list(scores), reverse=True)

    def _tell(self, missing: Iterable[ProfileName]) -> None:
        """Log each profile that is missing once, and no more than 100 beside the default."""
        for name in missing:
            if name in self._told or (len(self._told) > _MOST_TOLD and name != self._default):
                continue
            self._told.add(name)
            self._handle.logger.warning(
                "there is no SeccompProfile %s in namespace %s or in none: pods that name it have"
                " the default profile %s, or without that one an equal score on all nodes",
                *(name[1], name[0], "/".join(self._default)),
            )

    def _on_node(self, node: core.NodeInfo) -> Iterator[frozenset[ProfileName]]:
        """Yield the profiles that each pod on a node named when it was first seen on a node.

        Nobody can change the security context of a pod, and a container keeps the profile with
        which it starts. A tenant may write thousands of annotations, which to read takes long.
        """
        name = node.name
        for pod in node.pods:
            uid = pod.uid
            found = self._of_pods.get(uid)
            if found is None:
                found = self._of_pods[uid] = (name, _named_by(pod))
            yield found[1]

    def _forget_deleted(self, pods: core.PodSnapshot) -> None:
        """Forget the pods that are on no node any more, if there may be many.

        Not each call sees all nodes, so a pod that the last call did not see may still be there.
        """
        if len(self._of_pods) <= self._most_remembered:
            return
        # Other threads add pods meanwhile.
        remembered = list(self._of_pods.items())
        kept = {uid: found for uid, found in remembered if pods.pod_on(found[0], uid)}
        self._of_pods, self._most_remembered = kept, 2 * len(kept) + _SPARE_PODS


class _Allowed:
    """The system calls that profiles allow, as numbers with a bit for each call, during one call.

    Args:
        profiles: the informer of SeccompProfiles.
        default: the profile of pods whose own profiles allow nothing.

    Attributes:
        missing: the names of which there is no profile.
    """

    def __init__(self, profiles: Informer, default: ProfileName) -> None:
        self._informer = profiles
        self._default = default
        self.missing: set[ProfileName] = set()
        self._bits: dict[str, int] = {}
        self._by_name: dict[ProfileName, int] = {}
        self._by_all: dict[frozenset[ProfileName], int] = {}

    def by_all(self, names: frozenset[ProfileName]) -> int:
        """Return what the profiles of a pod allow together, or else the default profile."""
        found = self._by_all.get(names)
        if found is None:
            found = reduce(or_, map(self._by, names), 0) or self._by(self._default)
            self._by_all[names] = found
        return found

    def _by(self, name: ProfileName) -> int:
        found = self._by_name.get(name)
        if found is None:
            profile = self._informer.get(*name) or self._informer.get("", name[1])
            if profile is None:
                self.missing.add(name)
            calls = _calls(profile)
            found = self._by_name[name] = reduce(or_, map(self._bit, calls), 0)
        return found

    def _bit(self, call: str) -> int:
        return 1 << self._bits.setdefault(call, len(self._bits))


def _calls(profile: KubeObject | None) -> frozenset[str]:
    """Return the system calls of a profile; none if it is missing or cannot be read."""
    if profile is None:
        return frozenset()
    try:
        rules = profile["spec"].get("syscalls") or []
        allowed = [each["names"] for each in rules if each["action"] in _ALLOWED]
        return frozenset(str(name) for names in allowed for name in names)
    except (KubextendError, LookupError, TypeError, AttributeError):
        return frozenset()


def _beyond(own: int, there: Mapping[int, int]) -> int:
    """Return the calls beyond its own that each pod of a node sees, once the new pod is there."""
    host = reduce(or_, there, 0)
    with_pod = host | own
    seen = sum(count * (with_pod & ~allowed).bit_count() for allowed, count in there.items())
    return (host & ~own).bit_count() + seen


def _named_by(pod: core.Pod) -> frozenset[ProfileName]:
    """Return the profiles that a pod names in its spec and in its annotations."""
    return _in_spec(pod) | _in_annotations(pod)


def _in_spec(pod: core.Pod) -> frozenset[ProfileName]:
    """Return the profiles that a pod's spec names.

    There are none if kubextend does not keep the spec, or if it names more than 32.
    """
    try:
        raw = pod.raw
    except TruncatedPodError:
        return frozenset()
    if b"Localhost" not in raw:
        return frozenset()
    spec = json.loads(raw).get("spec") or {}
    init_containers = spec.get("initContainers") or []
    sidecars = [each for each in init_containers if each.get("restartPolicy") == "Always"]
    return _few(_names(_paths([spec, *(spec.get("containers") or []), *sidecars])))


def _in_annotations(pod: core.Pod) -> frozenset[ProfileName]:
    """Return the profiles in a pod's annotations.

    There are none if kubextend does not keep the annotations, or if they name more than 32.
    """
    try:
        annotations = pod.annotations
    except TruncatedPodError:
        return frozenset()
    return _few(_names(path for key, path in annotations.items() if _ANNOTATION in key))


def _few(names: Iterable[ProfileName]) -> frozenset[ProfileName]:
    """Return the profiles of these names; none if there are more than 32."""
    found: set[ProfileName] = set()
    for name in names:
        found.add(name)
        if len(found) > _MOST_PROFILES:
            return frozenset()
    return frozenset(found)


def _paths(with_contexts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for each in with_contexts:
        profile = (each.get("securityContext") or {}).get("seccompProfile") or {}
        if profile.get("type") == "Localhost":
            yield profile.get("localhostProfile") or ""


def _names(paths: Iterable[str]) -> Iterator[ProfileName]:
    """Yield the names in paths like ``operator/NAMESPACE/NAME.json`` and ``operator/NAME.json``."""
    for path in paths:
        *_, namespace, file = ["", *path.split("/")]
        name = file.rpartition(".")[0] if "." in file else file
        if _may_be_a_name(namespace) and _may_be_a_name(name):
            yield namespace, name


def _may_be_a_name(text: str) -> bool:
    # A character that is not ASCII may take four bytes.
    return 0 < len(text) <= _LONGEST_NAME and text.isascii()
