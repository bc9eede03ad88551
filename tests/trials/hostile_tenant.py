"""Runs all attacks that a tenant can make with pods at the same time.

kubextend runs with the limits and manifests of deploy/ and a real kube-scheduler. A neighbour
creates about one pod a second. It is wrong if the neighbour's pods wait for too long, if kubextend
takes too much memory, or if its reports are forged or leave a pod out.
"""

import random
import threading
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from typing import ClassVar, Final

import httpx
import yaml
from tests.e2e.controlplane import ControlPlane
from tests.e2e.kubeapi import Api, NodePool, Object
from tests.e2e.manifests import DEPLOY, apply
from tests.e2e.program_plane import program_plane
from tests.e2e.queue_policies import GATE, QUEUED, SCHEDULER, gates, install_queue
from tests.e2e.queue_stack import NAMESPACE
from tests.e2e.queued_pods import queued_pod
from tests.e2e.stack import Mode, Stack, run_kubextend
from tests.e2e.workbench import until

from .clients import memory_bytes, percentile
from .harness import Report, trial
from .served import MB
from .tenant import (
    ATTACKS,
    NAMESPACES,
    OTHER_OF_TENANT,
    TENANT,
    Attack,
    Tenant,
    ungating,
    unpatchable,
)

NEIGHBOUR: Final = "neighbour"
MOST_RESIDENT_BYTES: Final = 400_000_000
MAX_HOLD_S: Final = 60.0
# Seconds that 99 of 100 of the neighbour's pods wait at most.
BOUNDS_S: Final = {"BestEffortFIFO": 2.0, "StrictFIFO": MAX_HOLD_S}
# The seconds within which an Event has to name a pod that cannot be patched.
_NAMED_WITHIN_S: Final = 60.0
# The share of the planned actions that have to happen: an API server under attack answers late.
_LEAST_SHARE: Final = 0.5
# The neighbour creates a pod each second, and waits for the answer.
_LEAST_PODS_PER_S: Final = 0.75
_LIMITS: Final = ("maxBodyBytes", "maxInFlightBytes")


class PatientStack(Stack):
    """A stack whose kube-scheduler retries pods as late as by default."""

    backoff: ClassVar[Mapping[str, object]] = {}


def shipped_profile() -> Object:
    """Return the profile of deploy/second-scheduler with a queue and the Coscheduling example."""
    (own,) = _shipped("second-scheduler")["profiles"]
    (gangs,) = _shipped("examples", "coscheduling")["profiles"]
    plugins = {**own["plugins"], **gangs["plugins"]}
    plugins["queueSort"] = {"enabled": [{"name": "PrioritySort"}]}
    return {
        "schedulerName": SCHEDULER,
        "plugins": plugins,
        "pluginConfig": gangs["pluginConfig"],
    }


def _shipped(*folder: str) -> Object:
    return dict(yaml.safe_load(DEPLOY.joinpath(*folder, "kubextend.yaml").read_text()))


class Neighbour:
    """Creates pods, and notes when each was to be created and when it was bound."""

    def __init__(self, plane: ControlPlane, pool: str, seed: int) -> None:
        self._plane = plane
        self._pool = pool
        self._chance = random.Random(seed)
        self.asked: dict[str, float] = {}
        self.bound: dict[str, float] = {}

    def create(self, over: threading.Event) -> None:
        """Create about one pod a second, until the attacks are over."""
        number = 0
        while not over.wait(self._chance.uniform(0.8, 1.2)):
            name = f"pod-{number:04}"
            number += 1
            self.asked[name] = time.monotonic()
            path = f"/api/v1/namespaces/{NEIGHBOUR}/pods"
            self._plane.api.call("POST", path, queued_pod(name, self._pool))

    def watch(self) -> None:
        """Note when pods are bound, until the API ends."""
        path = f"/api/v1/namespaces/{NEIGHBOUR}/pods"
        # The client may be closed meanwhile.
        with suppress(httpx.HTTPError, RuntimeError):
            for change in self._plane.api.changes(path, "0", timeoutSeconds="3600"):
                pod = change["object"]
                name = pod["metadata"]["name"]
                if pod["spec"].get("nodeName"):
                    self.bound.setdefault(name, time.monotonic())

    def waited(self) -> list[float]:
        """Return the sorted seconds until each pod was bound; unbound pods count until now."""
        now = time.monotonic()
        return sorted(max(0.0, self.bound.get(name, now) - at) for name, at in self.asked.items())


class Siege:
    """One kubextend and one kube-scheduler under the attacks of a tenant who has a neighbour."""

    def __init__(
        self, plane: ControlPlane, strategy: str, options: Namespace, report: Report
    ) -> None:
        self._plane = plane
        self._strategy = strategy
        self._options = options
        self._seconds: float = options.seconds
        self._report = report
        self._pool = NodePool(plane.api, "hostile", 20, cpu="1000", pods=5000)
        for namespace in (TENANT, OTHER_OF_TENANT, NEIGHBOUR):
            plane.api.create_namespace(namespace, QUEUED)
        for namespace in (TENANT, OTHER_OF_TENANT):
            _let_in(plane.api, namespace)
        shipped = _shipped("second-scheduler")["server"]
        self._stack = PatientStack(
            plane,
            "hostile",
            Mode(names=True),
            profile=shipped_profile(),
            queue={
                "lease": {"namespace": NAMESPACE},
                "strategy": strategy,
                "fairQueuing": options.fair_queuing,
            },
            extender=_shipped("examples", "coscheduling")["extender"] | {"httpTimeout": "2s"},
            sections={"server": {name: shipped[name] for name in _LIMITS}},
        )

    def run(self) -> None:
        """Run all attacks while the neighbour works, and judge what came of them."""
        leads = lambda: self._stack.counts().total("kubextend_queue_leader") == 1  # noqa: E731
        until(leads, "the queue runs")
        over = threading.Event()
        neighbour = Neighbour(self._plane, self._pool.name, self._options.seed)
        threading.Thread(target=neighbour.watch, daemon=True).start()
        with self._plane.api_of(TENANT) as api:
            tenants = {
                attack: Tenant(api, self._pool.name, over, self._seconds, NAMESPACES[attack])
                for attack in ATTACKS
            }
            with ThreadPoolExecutor(len(tenants) + 1) as threads:
                doing = [threads.submit(attack, tenant) for attack, tenant in tenants.items()]
                doing.append(threads.submit(neighbour.create, over))
                try:
                    self._look_at_queue(over, doing)
                finally:
                    over.set()
            # An exception of a thread is raised here.
            for each in doing:
                each.result()
            with suppress(TimeoutError):
                all_bound = lambda: len(neighbour.bound) == len(neighbour.asked)  # noqa: E731
                until(all_bound, "the neighbour's pods are bound", MAX_HOLD_S)
            self._judge_work(tenants, neighbour)
            self._judge_neighbour(neighbour)
            self._judge_kubextend(tenants)

    def _look_at_queue(self, over: threading.Event, doing: Sequence[Future[None]]) -> None:
        """Check ``kubextend queue`` until the time is over, or an attack or the neighbour fails."""
        ends_s = time.monotonic() + self._seconds
        while (left_s := ends_s - time.monotonic()) > 0 and not any(map(_has_failed, doing)):
            over.wait(min(left_s, max(20.0, self._seconds / 10)))
            for line in run_kubextend("queue", "--config", self._stack.config).splitlines():
                if not line.isprintable():
                    self._report.mistake(f"printed: {line!r}")
                if "kube-system/forged " in line[:40]:
                    self._report.mistake(f"forged: {line!r}")
            memory = memory_bytes(self._stack.pid) // MB
            self._report.say(
                f"{max(0.0, ends_s - time.monotonic()):.0f} s more; {memory} MB are resident"
            )

    def _judge_work(self, tenants: Mapping[Attack, Tenant], neighbour: Neighbour) -> None:
        """Find attacks, and a neighbour, that did too little for the bounds."""
        judge = self._report.judge
        for attack, tenant in tenants.items():
            said = f"{attack.__name__} made {tenant.created} pods of {tenant.meant:.0f}"
            judge(tenant.created >= max(1.0, tenant.meant * _LEAST_SHARE), said)
            for error, count in tenant.errors.items():
                self._report.say(f"  {count} times: {error}")
        made, refused = tenants[ungating].created, tenants[ungating].refused
        said = f"ungating was refused for {refused} pods of {made}"
        judge(refused >= max(1.0, made * _LEAST_SHARE), said)
        asked = len(neighbour.asked)
        said = f"the neighbour made {asked} pods in {self._seconds:.0f} s"
        judge(asked >= self._seconds * _LEAST_PODS_PER_S, said)

    def _judge_neighbour(self, neighbour: Neighbour) -> None:
        waited, bound_s = neighbour.waited(), BOUNDS_S[self._strategy]
        if not waited:
            return
        p99_s = percentile(waited, 99)
        said = f"the neighbour's pods wait {p99_s:.2f} s at p99, {bound_s} s are allowed"
        self._report.judge(p99_s <= bound_s, said)
        self._report.tell(neighbour_pods=len(waited), neighbour_bound=len(neighbour.bound))
        self._report.tell(**{f"neighbour_p99_s_with_{self._strategy}": p99_s})
        self._report.tell(neighbour_longest_s=waited[-1])

    def _judge_kubextend(self, tenants: Mapping[Attack, Tenant]) -> None:
        worst, edge = memory_bytes(self._stack.pid, "VmHWM"), tenants[unpatchable]
        with suppress(TimeoutError):
            until(lambda: not self._unnamed(edge), "Events explain", _NAMED_WITHIN_S)
        unnamed, ungated = self._unnamed(edge), tenants[ungating].ungated
        set_aside = self._stack.counts().total("kubextend_queue_pods", state="set_aside")
        judge = self._report.judge
        judge(worst <= MOST_RESIDENT_BYTES, f"{worst // MB} MB were resident at most")
        judge(not ungated, f"the tenant took off {ungated} gates")
        names = [name[:20] for name in unnamed]
        judge(not unnamed, f"set aside, and nobody says why: {names}")
        self._report.tell(memory_mb=worst / MB)
        self._report.tell(tenant_pods=sum(each.created for each in tenants.values()))
        self._report.tell(unpatchable=len(edge.unpatchable), set_aside=set_aside)
        self._report.tell(gates_refused=tenants[ungating].refused)

    def _unnamed(self, tenant: Tenant) -> list[str]:
        """Return unpatchable pods whose turn in the queue has come and that no Event names."""
        path = f"/apis/events.k8s.io/v1/namespaces/{TENANT}/events"
        events = self._plane.api.items(path, fieldSelector="reason=SetAside")
        named = {each["regarding"]["name"] for each in events if each.get("note")}
        turn_s = self._turn_s()
        return [
            name
            for name, created_s in tenant.unpatchable.items()
            if created_s < turn_s and name not in named
        ]

    def _turn_s(self) -> float:
        """Return when the youngest pod without priority was created that the queue has released."""
        created = [
            pod["metadata"]["creationTimestamp"]
            for pod in self._plane.api.pods(TENANT)
            if pod["spec"]["schedulerName"] == SCHEDULER
            and not pod["spec"]["priority"]
            and GATE not in gates(pod)
        ]
        return datetime.fromisoformat(max(created)).timestamp() if created else 0.0


def _has_failed(work: Future[None]) -> bool:
    return work.done() and work.exception() is not None


def _let_in(api: Api, namespace: str) -> None:
    """Allow the tenant to create, read, change and delete pods of a namespace, and nothing else."""
    group = "rbac.authorization.k8s.io"
    metadata = {"name": TENANT, "namespace": namespace}
    verbs = ["create", "get", "list", "patch", "update", "delete"]
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules}
    subjects = [{"apiGroup": group, "kind": "User", "name": TENANT}]
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "subjects": subjects,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": TENANT},
    }
    for manifest in (role, binding):
        apply(api, manifest)


@trial(
    words=tuple(BOUNDS_S),
    few=("BestEffortFIFO",),
    seconds=(600.0, 60.0),
    seed=12,
    fair_queuing="ByNamespace",
)
def hostile_tenant(options: Namespace, report: Report) -> None:
    """All the harm that pods of one namespace can do, ten minutes for each strategy of the queue.

    The fair queuing may be None, too.
    """
    for strategy in options.words:
        report.say(strategy)
        with program_plane() as plane:
            install_queue(plane)
            Siege(plane, strategy, options, report).run()
