"""Runs all attacks that a tenant can make with pods at the same time.

kubextend runs with the limits and manifests of deploy/ and a real kube-scheduler. A neighbour
creates about one pod a second. It is wrong if the neighbour's pods wait for too long, or if
kubextend takes too much memory.
"""

import random
import threading
import time
from argparse import Namespace
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import ClassVar, Final

import httpx
import yaml
from tests.e2e.controlplane import ControlPlane
from tests.e2e.kubeapi import Api, NodePool, Object
from tests.e2e.manifests import DEPLOY, apply
from tests.e2e.program_plane import program_plane
from tests.e2e.queue_policies import QUEUED, SCHEDULER, install_queue
from tests.e2e.queue_stack import NAMESPACE
from tests.e2e.queued_pods import queued_pod
from tests.e2e.stack import Mode, Stack
from tests.e2e.workbench import until

from .clients import memory_bytes
from .harness import Report, trial
from .served import MB
from .tenant import ATTACKS, NAMESPACES, OTHER_OF_TENANT, TENANT, Attack, Tenant

NEIGHBOUR: Final = "neighbour"
MOST_RESIDENT_BYTES: Final = 400_000_000
MAX_HOLD_S: Final = 60.0
# Seconds that 99 of 100 of the neighbour's pods wait at most.
BOUNDS_S: Final = {"BestEffortFIFO": 2.0, "StrictFIFO": MAX_HOLD_S}
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
    named = {"schedulerName": SCHEDULER, "plugins": plugins}
    return named | {"pluginConfig": gangs["pluginConfig"]}


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
        while not over.wait(self._chance.uniform(0.8, 1.2)):
            name = f"pod-{len(self.asked):04}"
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
                if pod["spec"].get("nodeName"):
                    self.bound.setdefault(pod["metadata"]["name"], time.monotonic())

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
        self._report = report
        self._pool = NodePool(plane.api, "hostile", 20, cpu="1000", pods=5000)
        for namespace in (TENANT, OTHER_OF_TENANT, NEIGHBOUR):
            plane.api.create_namespace(namespace, QUEUED)
        for namespace in (TENANT, OTHER_OF_TENANT):
            _let_in(plane.api, namespace)
        shipped = _shipped("second-scheduler")["server"]
        lease = {"lease": {"namespace": NAMESPACE}}
        self._stack = PatientStack(
            plane,
            "hostile",
            Mode(names=True),
            profile=shipped_profile(),
            queue={**lease, "strategy": strategy, "fairQueuing": options.fair_queuing},
            extender=_shipped("examples", "coscheduling")["extender"] | {"httpTimeout": "2s"},
            sections={"server": {name: shipped[name] for name in _LIMITS}},
        )

    def run(self) -> None:
        """Run all attacks while the neighbour works, and judge what came of them."""
        leads = lambda: self._stack.counts().total("kubextend_queue_leader") == 1  # noqa: E731
        until(leads, "the queue runs")
        seconds, over = self._options.seconds, threading.Event()
        neighbour = Neighbour(self._plane, self._pool.name, self._options.seed)
        threading.Thread(target=neighbour.watch, daemon=True).start()
        with self._plane.api_of(TENANT) as api:
            tenants = {
                attack: Tenant(api, self._pool.name, over, seconds, NAMESPACES[attack])
                for attack in ATTACKS
            }
            with ThreadPoolExecutor(len(tenants) + 1) as threads:
                attacking = [threads.submit(attack, tenant) for attack, tenant in tenants.items()]
                creating = threads.submit(neighbour.create, over)
                # An attack may have made all of its pods before.
                wait([creating], timeout=seconds)
                over.set()
            # An exception of a thread is raised here.
            for each in (*attacking, creating):
                each.result()
            with suppress(TimeoutError):
                all_bound = lambda: len(neighbour.bound) == len(neighbour.asked)  # noqa: E731
                until(all_bound, "the neighbour's pods are bound", MAX_HOLD_S)
        self._judge_work(tenants, len(neighbour.asked))
        self._judge(neighbour.waited())

    def _judge_work(self, tenants: Mapping[Attack, Tenant], asked: int) -> None:
        """Find attacks, and a neighbour, that did too little for the bounds."""
        judge, seconds = self._report.judge, self._options.seconds
        for attack, tenant in tenants.items():
            said = f"{attack.__name__} made {tenant.created} pods of {tenant.meant:.0f}"
            judge(tenant.created >= max(1.0, tenant.meant * _LEAST_SHARE), said)
            for error, count in tenant.errors.items():
                self._report.say(f"  {count} times: {error}")
        said = f"the neighbour made {asked} pods in {seconds:.0f} s"
        judge(asked >= seconds * _LEAST_PODS_PER_S, said)
        self._report.tell(tenant_pods=sum(each.created for each in tenants.values()))

    def _judge(self, waited: list[float]) -> None:
        p99_s, bound_s = waited[len(waited) * 99 // 100], BOUNDS_S[self._strategy]
        said = f"the neighbour's pods wait {p99_s:.2f} s at p99, {bound_s} s are allowed"
        self._report.judge(p99_s <= bound_s, said)
        self._report.tell(neighbour_pods=len(waited), neighbour_longest_s=waited[-1])
        self._report.tell(**{f"neighbour_p99_s_with_{self._strategy}": p99_s})
        worst = memory_bytes(self._stack.pid, "VmHWM")
        self._report.judge(worst <= MOST_RESIDENT_BYTES, f"{worst // MB} MB were resident at most")
        self._report.tell(memory_mb=worst / MB)


def _let_in(api: Api, namespace: str) -> None:
    """Allow the tenant to create, read, change and delete pods of a namespace, and nothing else."""
    group = "rbac.authorization.k8s.io"
    metadata = {"name": TENANT, "namespace": namespace}
    verbs = ["create", "get", "list", "patch", "update", "delete"]
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]
    subjects = [{"apiGroup": group, "kind": "User", "name": TENANT}]
    reference = {"apiGroup": group, "kind": "Role", "name": TENANT}
    for kind, more in (
        ("Role", {"rules": rules}),
        ("RoleBinding", {"subjects": subjects, "roleRef": reference}),
    ):
        apply(api, {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, **more})


@trial(*BOUNDS_S, seconds=600.0, seed=12, fair_queuing="ByNamespace")
def hostile_tenant(options: Namespace, report: Report) -> None:
    """All the harm that pods of one namespace can do, ten minutes for each strategy of the queue.

    The fair queuing may be None, too.
    """
    for strategy in options.words:
        report.say(strategy)
        with program_plane() as plane:
            install_queue(plane)
            Siege(plane, strategy, options, report).run()
