"""Runs all attacks that a tenant can make with pods at the same time: ``make hostile-tenant``.

The tenant may create, patch and delete pods of its own two namespaces and nothing else. The attack
with unschedulable pods has one of them, since the queue soon slows down such a namespace.
kubextend runs with the limits and manifests of deploy/, beside a real kube-scheduler. A neighbour
creates about one pod a second. The program prints how long the neighbour's pods waited,
and the memory and the reports of kubextend. Exit code: 0 where all figures are within their bounds.
"""

import argparse
import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, TypeAlias

import httpx
import yaml

from .controlplane import USERS, ControlPlane
from .kubeapi import MERGE, Api, NodePool, Object, trusting
from .manifests import DEPLOY, apply
from .program_plane import program_plane
from .queue_policies import GATE, QUEUED, SCHEDULER, gates, install_queue
from .queue_stack import NAMESPACE
from .queued_pods import queued_pod
from .stack import Mode, Stack, run_kubextend
from .workbench import say, until

TENANT, OTHER_OF_TENANT, NEIGHBOUR = "tenant", "tenant-rejected", "neighbour"
MOST_RESIDENT_BYTES: Final = 400_000_000
MAX_HOLD_S: Final = 60.0
# Seconds that 99 of 100 of the neighbour's pods wait at most.
BOUNDS_S: Final = {"BestEffortFIFO": 2.0, "StrictFIFO": MAX_HOLD_S}
_GROUP: Final = "scheduling.x-k8s.io/pod-group"
_MINIMUM: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
# The shipped profile lets a pod with this label onto nodes with RDMA alone.
_NOT_HERE: Final = "high-comm"
_NOWHERE: Final = {"example.com/no-such-node": "true"}
# The longest argument that a pod of this kind had when it could be created and not patched.
_LONGEST_ARGUMENT: Final = 1_572_000
_FORGED: Final = "kubextend-scheduler\n1         kube-system/forged  0\x1b[31m"
# The seconds within which an Event has to name a pod that cannot be patched.
_NAMED_WITHIN_S: Final = 60.0
# The share of the planned actions that have to happen: an API server under attack answers late.
_LEAST_SHARE: Final = 0.5
# The neighbour creates a pod each second, and waits for the answer.
_LEAST_PODS_PER_S: Final = 0.75


class ShippedStack(Stack):
    """kubextend with the limits of deploy/second-scheduler, and kube-scheduler as it is shipped."""

    backoff: Mapping[str, object] = {}  # type: ignore[misc]

    def _extender_configuration(self) -> Object:
        shipped = yaml.safe_load((DEPLOY / "second-scheduler" / "kubextend.yaml").read_text())
        config = super()._extender_configuration()
        kept = {"maxBodyBytes", "maxInFlightBytes"}
        config["server"] |= {name: shipped["server"][name] for name in kept}
        del config["extender"]["httpTimeout"]
        return config


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


@dataclass
class Tenant:
    """The tenant while it makes one kind of attack, and the counts of that attack.

    Attributes:
        api: a client with the account of the tenant.
        pool: the name of the node pool that the pods select.
        over: set when the attack is to end.
        seconds: how long the attack lasts; the number of pods is scaled by ``seconds`` / 600.
        namespace: the namespace of the attack's pods.
        meant: how many pods the attack creates if no call takes time.
        created: how many pods the attack has created.
        unpatchable: by pod name, when each pod was created that is too large for any patch.
        ungated: how often the tenant removed the queue's gate.
        refused: how often the tenant was forbidden to remove the gate.
        errors: the errors of calls of the attack, counted by text.
    """

    api: Api
    pool: str
    over: threading.Event
    seconds: float
    namespace: str = TENANT
    meant: float = 0.0
    created: int = 0
    unpatchable: dict[str, float] = field(default_factory=dict)
    ungated: int = 0
    refused: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def create(self, pod: Object) -> bool:
        """Create a pod and count it; return whether the pod was created."""
        made = self.can_create(pod)
        self.created += made
        return made

    def can_create(self, pod: Object) -> bool:
        """Create a pod without counting it; return whether the pod was created."""
        try:
            self.api.call("POST", f"/api/v1/namespaces/{self.namespace}/pods", pod)
        except httpx.HTTPError as error:
            self.errors[str(error)[:60]] += 1
            return False
        return True

    def delete(self, name: str) -> None:
        """Delete a pod, if it exists."""
        with suppress(httpx.HTTPError):
            self.api.delete_pod(self.namespace, name)

    def some(self, count: int) -> int:
        """Return the number of pods scaled to the time of the attack: all in ten minutes."""
        return max(1, round(count * self.seconds / 600))

    def pod(self, name: str, group: str = "", minimum: int = 0, **spec: object) -> Object:
        """Make a pod for the scheduler with the queue, in a pod group if one is named."""
        made = queued_pod(name, self.pool, **spec)  # type: ignore[arg-type]
        if group:
            made["metadata"]["labels"] = {_GROUP: group, _MINIMUM: str(minimum)}
        return made

    def every(self, seconds: float, count: int, pods: int = 1) -> Iterator[int]:
        """Yield numbers, one after each pause of ``seconds``, until the attack is over.

        Args:
            seconds: the pause before each number.
            count: how many numbers at most.
            pods: how many pods the attack creates for each number.
        """
        self.meant = pods * min(count, self.seconds // seconds)
        for number in range(count):
            if self.over.wait(seconds):
                return
            yield number


Attack: TypeAlias = Callable[[Tenant], None]


def unpatchable(tenant: Tenant) -> None:
    """Attack: create pods so large that etcd takes them, but no patch of them."""
    length = _longest_argument(tenant)
    for number in tenant.every(15.0, 40):
        name = _long_name(f"edge-{number}")
        if tenant.create(_edge_pod(tenant, name, length)):
            tenant.unpatchable[name] = time.time()


def _longest_argument(tenant: Tenant) -> int:
    """Return the longest argument with which a pod can be created, found by trial."""
    fits, too_long = _LONGEST_ARGUMENT - 20_000, _LONGEST_ARGUMENT + 2_000
    name = _long_name("edge-tried")
    while too_long - fits > 8:
        middle = (fits + too_long) // 2
        if tenant.can_create(_edge_pod(tenant, name, middle)):
            tenant.delete(name)
            fits = middle
        else:
            too_long = middle
    return fits


def _long_name(start: str) -> str:
    return start + "x" * (253 - len(start))


def _edge_pod(tenant: Tenant, name: str, length: int) -> Object:
    pod = tenant.pod(name)
    pod["metadata"]["managedFields"] = [{}]
    pod["spec"]["containers"][0]["args"] = ["x" * length]
    return pod


def tolerant(tenant: Tenant) -> None:
    """Attack: create pods with 14,000 tolerations, for kubextend's scheduler and for none."""
    for number in tenant.every(1.5, tenant.some(200)):
        keys = (f"example.com/t{number}-{each}" for each in range(14_000))
        tolerations = [{"key": key, "operator": "Exists"} for key in keys]
        pod = tenant.pod(f"tolerant-{number}", tolerations=tolerations, nodeSelector=_NOWHERE)
        if number % 2:
            pod["spec"]["schedulerName"] = "nobody"
        tenant.create(pod)


def annotated(tenant: Tenant) -> None:
    """Attack: create pods with 250 KB of annotations."""
    for number in tenant.every(0.4, tenant.some(1100)):
        pod = tenant.pod(f"annotated-{number}", schedulerName="nobody")
        pod["metadata"]["annotations"] = {"example.com/a": f"{number:08}" * 31_000}
        tenant.create(pod)


def held(tenant: Tenant) -> None:
    """Attack: create gangs of 101 pods, of which Permit holds 100, as one can never run."""
    for gang in tenant.every(20.0, tenant.some(11), 101):
        for number in range(101):
            where = {"nodeSelector": _NOWHERE} if number == 0 else {}
            tenant.create(tenant.pod(f"held-{gang}-{number}", f"held-{gang}", 101, **where))
            if tenant.over.wait(0.05):
                return


def paired(tenant: Tenant) -> None:
    """Attack: create gangs of two of which one can never run or has another scheduler."""
    for pair in tenant.every(8.0, 70, 2):
        group = f"pair-{pair}"
        tenant.create(tenant.pod(f"{group}-a", group, 2))
        other = {"schedulerName": "nobody"} if pair % 2 else {"nodeSelector": _NOWHERE}
        tenant.create(tenant.pod(f"{group}-b", group, 2, **other))
        if pair > 10:
            tenant.delete(f"pair-{pair - 10}-a")
            tenant.delete(f"pair-{pair - 10}-b")


def ahead(tenant: Tenant) -> None:
    """Attack: create pods of the highest priority that can never run, first in the queue."""
    critical = "system-node-critical"
    for number in tenant.every(6.0, 100):
        pod = tenant.pod(f"ahead-{number}", priority_class=critical, nodeSelector=_NOWHERE)
        tenant.create(pod)
        if number > 40:
            tenant.delete(f"ahead-{number - 40}")


def ungating(tenant: Tenant) -> None:
    """Attack: remove the queue's gate from own pods, which another gate still holds."""
    other = [{"name": "example.com/other"}]
    for number in tenant.every(2.0, 300):
        name = f"ungating-{number}"
        if not tenant.create(tenant.pod(name, schedulingGates=other)):
            continue
        patch = {"spec": {"schedulingGates": other}}
        try:
            tenant.api.call("PATCH", f"/api/v1/namespaces/{TENANT}/pods/{name}", patch, MERGE)
        except httpx.HTTPStatusError as refusal:
            tenant.refused += refusal.response.status_code == httpx.codes.FORBIDDEN
        else:
            tenant.ungated += 1
        if number > 50:
            tenant.delete(f"ungating-{number - 50}")


def turned_away(tenant: Tenant) -> None:
    """Attack: create thousands of pods of a gang that is never complete."""
    for number in tenant.every(0.1, tenant.some(3200)):
        tenant.create(tenant.pod(f"away-{number}", "away", 50_000))


def printed(tenant: Tenant) -> None:
    """Attack: create pods whose scheduler name forges a row in printed tables."""
    for number in tenant.every(20.0, 20):
        gates = [{"name": GATE}]
        tenant.create(tenant.pod(f"printed-{number}", schedulerName=_FORGED, schedulingGates=gates))


def rejected(tenant: Tenant) -> None:
    """Attack: create pods that a plugin rejects on every node, so that each event wakes all."""
    for number in tenant.every(0.25, tenant.some(2000)):
        pod = tenant.pod(f"rejected-{number}")
        pod["metadata"]["labels"] = {_NOT_HERE: "true"}
        tenant.create(pod)


ATTACKS: Final[tuple[Attack, ...]] = (
    *(unpatchable, tolerant, annotated, held, paired),
    *(ahead, ungating, turned_away, printed, rejected),
)
NAMESPACES: Final = dict.fromkeys(ATTACKS, TENANT) | {rejected: OTHER_OF_TENANT}


class Neighbour:
    """Creates pods and notes when each was created, released by the queue and bound."""

    def __init__(self, plane: ControlPlane, pool: str, seed: int) -> None:
        self._plane = plane
        self._pool = pool
        self._chance = random.Random(seed)
        self.asked: dict[str, float] = {}
        self.created: dict[str, float] = {}
        self.released: dict[str, float] = {}
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
            self.created[name] = time.monotonic()

    def watch(self, pods: Iterator[Object]) -> None:
        """Note when pods are released and bound, until the watch ends."""
        with suppress(httpx.HTTPError):
            for pod in pods:
                name = pod["metadata"]["name"]
                if GATE not in gates(pod):
                    self.released.setdefault(name, time.monotonic())
                if pod["spec"].get("nodeName"):
                    self.bound.setdefault(name, time.monotonic())

    def waited(self) -> list[float]:
        """Return the sorted seconds until each pod was bound; unbound pods count until now."""
        return self._spans(self.asked, self.bound)

    def phases(self) -> Iterator[tuple[str, list[float]]]:
        """Yield each phase of a pod's way, with the sorted seconds that the pods spent in it."""
        yield "in kube-apiserver", self._spans(self.asked, self.created)
        yield "in the queue", self._spans(self.created, self.released)
        yield "in kube-scheduler", self._spans(self.released, self.bound)

    @staticmethod
    def _spans(since: Mapping[str, float], until_s: Mapping[str, float]) -> list[float]:
        now = time.monotonic()
        return sorted(max(0.0, until_s.get(name, now) - at) for name, at in since.items())

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the neighbour's pods during the block; note when they are released and bound."""
        trust = trusting(self._plane.authority.cert)
        admin = {"Authorization": f"Bearer {USERS['admin'][0]}"}
        path = f"{self._plane.url}/api/v1/namespaces/{NEIGHBOUR}/pods"
        query = {"watch": "true", "timeoutSeconds": "3600"}
        with (
            httpx.Client(verify=trust, headers=admin, timeout=None, trust_env=False) as client,
            client.stream("GET", path, params=query) as answer,
        ):
            pods = (json.loads(each)["object"] for each in _lines(answer))
            threading.Thread(target=self.watch, args=(pods,), daemon=True).start()
            yield


def _p50_p99(sorted_s: Sequence[float]) -> str:
    p50, p99 = (sorted_s[int(len(sorted_s) * share)] for share in (0.5, 0.99))
    return f"p50 {p50:.2f} s, p99 {p99:.2f} s"


def _lines(answer: httpx.Response) -> Iterator[str]:
    with suppress(httpx.HTTPError, RuntimeError):
        yield from answer.iter_lines()


@dataclass(frozen=True)
class Outcome:
    """The report of a trial; ``wrong`` has a line for each bound that was passed."""

    lines: list[str]
    wrong: list[str]


class Trial:
    """A run with one kubextend, one kube-scheduler, one hostile tenant and one neighbour."""

    def __init__(
        self, plane: ControlPlane, strategy: str, fair_queuing: str, seconds: float, seed: int
    ) -> None:
        self._plane = plane
        self._strategy = strategy
        self._fair_queuing = fair_queuing
        self._seconds = seconds
        self._seed = seed
        self._most_active = 0
        self._pool = NodePool(plane.api, "hostile", 20, cpu="1000", pods=5000)
        for namespace in (TENANT, OTHER_OF_TENANT, NEIGHBOUR):
            plane.api.create_namespace(namespace, QUEUED)
        for namespace in (TENANT, OTHER_OF_TENANT):
            _let_in(plane.api, namespace)

    def run(self) -> Outcome:
        """Run all attacks beside the neighbour, and return the outcome."""
        queue = {
            "lease": {"namespace": NAMESPACE},
            "strategy": self._strategy,
            "fairQueuing": self._fair_queuing,
        }
        stack = ShippedStack(
            self._plane,
            "hostile",
            Mode(names=True),
            profile=shipped_profile(),
            queue=queue,
            extender=_shipped("examples", "coscheduling")["extender"],
        )
        until(lambda: stack.counts().total("kubextend_queue_leader") == 1, "the queue runs")
        over = threading.Event()
        neighbour = Neighbour(self._plane, self._pool.name, self._seed)
        with self._plane.api_of(TENANT) as api, neighbour.watching():
            tenants = {
                attack: Tenant(api, self._pool.name, over, self._seconds, NAMESPACES[attack])
                for attack in ATTACKS
            }
            with ThreadPoolExecutor(len(tenants) + 1) as threads:
                doing = [threads.submit(attack, tenant) for attack, tenant in tenants.items()]
                doing.append(threads.submit(neighbour.create, over))
                try:
                    wrong = self._look_at_queue(stack, over, doing)
                finally:
                    over.set()
            # An exception of a thread is raised here.
            for each in doing:
                each.result()
            with suppress(TimeoutError):
                all_bound = lambda: len(neighbour.bound) == len(neighbour.asked)  # noqa: E731
                until(all_bound, "the neighbour's pods are bound", MAX_HOLD_S)
            return self._outcome(stack, tenants, neighbour, wrong)

    def _look_at_queue(
        self, stack: Stack, over: threading.Event, doing: Sequence[Future[None]]
    ) -> list[str]:
        """Check ``kubextend queue`` until the time is over, or an attack or the neighbour fails.

        Returns: a line for each unprintable or forged line of the output.
        """
        wrong: list[str] = []
        ends_s = time.monotonic() + self._seconds
        while (left_s := ends_s - time.monotonic()) > 0 and not any(map(_has_failed, doing)):
            self._wait(stack, over, min(left_s, max(20.0, self._seconds / 10)))
            lines = run_kubextend("queue", "--config", stack.config).splitlines()
            wrong += [f"printed: {line!r}" for line in lines if not line.isprintable()]
            wrong += [f"forged: {line!r}" for line in lines if "kube-system/forged " in line[:40]]
            say(self._progress(stack))
        return wrong

    def _wait(self, stack: Stack, over: threading.Event, seconds: float) -> None:
        """Wait, and note each second how many pods kube-scheduler has to try."""
        ends_s = time.monotonic() + seconds
        while (left_s := ends_s - time.monotonic()) > 0 and not over.wait(min(left_s, 1.0)):
            with suppress(httpx.HTTPError):
                active = stack.scheduler_counts().total("scheduler_pending_pods", queue="active")
                self._most_active = max(self._most_active, int(active))

    def _progress(self, stack: Stack) -> str:
        with suppress(httpx.HTTPError):
            counts = stack.counts()
            states = ("ready", "held", "set_aside", "releasing", "released")
            queue = {s: int(counts.total("kubextend_queue_pods", state=s)) for s in states}
            held = int(counts.total("kubextend_waiting_pods"))
            theirs = stack.scheduler_counts()
            pending = {
                kind: int(theirs.total("scheduler_pending_pods", queue=kind))
                for kind in ("active", "backoff", "unschedulable")
            }
            return (
                f"  queue {queue}, held in Permit {held}, kube-scheduler {pending}, "
                f"{_memory(stack.pid, 'VmRSS')} MB"
            )
        return "  kubextend does not answer"

    def _outcome(
        self,
        stack: Stack,
        tenants: Mapping[Attack, Tenant],
        neighbour: Neighbour,
        wrong: list[str],
    ) -> Outcome:
        wrong = [*wrong, *_undone(tenants, neighbour, self._seconds)]
        waited, bound_s = neighbour.waited(), BOUNDS_S[self._strategy]
        if not waited:
            return Outcome([], wrong)
        p99 = waited[int(len(waited) * 0.99)]
        worst = _memory(stack.pid, "VmHWM")
        tenant = tenants[unpatchable]
        with suppress(TimeoutError):
            until(lambda: not self._unnamed(tenant), "Events explain", _NAMED_WITHIN_S)
        unnamed = self._unnamed(tenant)
        ungated, refused = tenants[ungating].ungated, tenants[ungating].refused
        errors = sum((each.errors for each in tenants.values()), Counter[str]())
        set_aside = int(stack.counts().total("kubextend_queue_pods", state="set_aside"))
        lines = [
            f"{self._strategy}, {self._fair_queuing}, {self._seconds:.0f} s, seed {self._seed}",
            (
                f"neighbour: {len(waited)} pods, {len(neighbour.bound)} bound, "
                f"{_p50_p99(waited)}, longest {waited[-1]:.2f} s"
            ),
            *(f"  {phase}: {_p50_p99(spans)}" for phase, spans in neighbour.phases() if spans),
            f"kube-scheduler: {self._most_active} pods to try at most",
            f"kubextend: {worst} MB resident at most",
            (
                f"tenant: {sum(each.created for each in tenants.values())} pods made, "
                f"{len(tenant.unpatchable)} unpatchable; "
                f"gates taken off: {ungated}, refused: {refused}"
            ),
            *(
                f"  {attack.__name__}: {each.created} pods of {each.meant:.0f}"
                for attack, each in tenants.items()
            ),
            f"set aside: {set_aside}; without a reason: {len(unnamed)}",
            *(f"  {count} times: {error}" for error, count in errors.items()),
        ]
        if p99 > bound_s:
            wrong.append(f"the neighbour's pods wait {p99:.2f} s at p99, more than {bound_s} s")
        if worst * 1_000_000 > MOST_RESIDENT_BYTES:
            wrong.append(f"{worst} MB are resident")
        if ungated:
            wrong.append(f"the tenant took off {ungated} gates")
        if unnamed:
            wrong.append(f"nobody says why these are set aside: {[name[:20] for name in unnamed]}")
        return Outcome(lines, wrong)

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


def _undone(
    tenants: Mapping[Attack, Tenant], neighbour: Neighbour, seconds: float
) -> Iterator[str]:
    """Yield a line for each attack, and for the neighbour, that did too little for the bounds."""
    for attack, tenant in tenants.items():
        if tenant.created < max(1.0, tenant.meant * _LEAST_SHARE):
            yield f"{attack.__name__} made {tenant.created} pods of {tenant.meant:.0f}"
    made, refused = tenants[ungating].created, tenants[ungating].refused
    if refused < max(1.0, made * _LEAST_SHARE):
        yield f"ungating was refused for {refused} pods of {made}"
    if len(neighbour.asked) < seconds * _LEAST_PODS_PER_S:
        yield f"the neighbour made {len(neighbour.asked)} pods in {seconds:.0f} s"


def _memory(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return int(kilobytes) * 1024 // 1_000_000


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


def main() -> int:
    """Run one trial from the command line; return 1 if a bound was passed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    seconds = float(os.environ.get("TENANT_SECONDS", "600"))
    parser.add_argument("--seconds", type=float, default=seconds)
    parser.add_argument("--seed", type=int, default=12)
    parser.add_argument("--strategy", choices=BOUNDS_S, default="BestEffortFIFO")
    parser.add_argument("--fair-queuing", choices=("ByNamespace", "None"), default="ByNamespace")
    options = parser.parse_args()
    with ExitStack() as ending:
        plane = ending.enter_context(program_plane())
        install_queue(plane)
        trial = Trial(plane, options.strategy, options.fair_queuing, options.seconds, options.seed)
        outcome = trial.run()
    for line in outcome.lines:
        say(line)
    for line in outcome.wrong:
        say(f"WRONG {line}")
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
