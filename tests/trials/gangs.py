"""Runs random gangs on a real kube-scheduler: none may be bound in part, spin, or stick.

In each wave Reserve and PreBind refuse pods at random, pods are deleted, operators allow and reject
held pods, and kubextend is killed or stopped. Then the trouble ends, and every gang that still has
enough pods must be bound.

A pod may be bound if its gang was complete with this pod at a moment since the pod reached Permit.
If a member is deleted after that moment, or its PreBind or Binding fails, the other members stay
bound, as in kube-scheduler, and the failed member is retried. A pod that an operator allowed may be
bound, and counts.
"""

import json
import random
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field

import httpx
from tests.e2e.controlplane import ControlPlane
from tests.e2e.kubeapi import POOL_LABEL, NodePool, Object, node, placed_on, pod
from tests.e2e.program_plane import program_plane
from tests.e2e.stack import PLUGIN_FOLDER, Mode, Stack
from tests.e2e.workbench import until

from .harness import Report, trial

SCHEDULER = "gangs"
TOKEN = "operators-of-random-gangs"
GANGS_AT_A_TIME = 25
NODES, ROOM = 10, 8
# Seconds of trouble; of calm until all gangs are bound; until retries end; without any retry.
CHAOS_S, CALM_S, SETTLE_S, QUIET_S = 15.0, 60.0, 3.0, 10.0
# The seconds after which the watch shows a deletion at the latest.
SEEN_AFTER_S = 2.0
# A wait in Permit lasts 5 s, and Chance refuses a pod at most six times in a kubextend process.
MOST_CYCLES_A_POD_AND_S, MORE_CYCLES_A_POD = 0.3, 12
MOST_QUIET_TRIES_A_POD = 2


@dataclass
class Gang:
    """A pod group of the test, and what happened to its pods.

    Attributes:
        name: the name of the group.
        names: the names of its pods.
        minimum: how many of the pods have to run.
        permitted: pods for which Permit was called, and Unreserve was not called since.
        bound: pods for which PostBind was called, or that were bound while kubextend was down.
        entitled: pods that may be bound: the gang was complete with them since their Permit.
        deleted_s: by pod name, when the pod was deleted.
        cycles: how often Reserve was called for pods of the group.
        quiet: how often PreFilter was called for them after all trouble had ended.
        sticks: whether it has enough pods, and is not bound when the trouble has ended.
    """

    name: str
    names: list[str]
    minimum: int
    permitted: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    entitled: set[str] = field(default_factory=set)
    deleted_s: dict[str, float] = field(default_factory=dict)
    cycles: int = 0
    quiet: int = 0
    sticks: bool = False

    def labels(self) -> dict[str, str]:
        return {
            "scheduling.x-k8s.io/pod-group": self.name,
            "pod-group.scheduling.sigs.k8s.io/min-available": str(self.minimum),
        }

    def counting(self, at_s: float) -> set[str]:
        """Return the pods that Coscheduling may count at a time, since it knows no deletion yet."""
        return {
            name
            for name in self.permitted | self.bound
            if at_s < self.deleted_s.get(name, at_s) + SEEN_AFTER_S
        }


class Judge:
    """Replays the events of a wave in the order of time, and finds gangs that are bound in part.

    Attributes:
        partly: the pods that are bound and may not be.
        seen: how often each point was called, and each kind of trouble happened.
    """

    def __init__(self, gangs: Sequence[Gang], quiet_s: float) -> None:
        self._quiet_s = quiet_s
        self._gang_of = {name: gang for gang in gangs for name in gang.names}
        self._gangs = gangs
        self.partly: list[str] = []
        self.seen = Counter[str]()

    def is_about(self, event: Object) -> bool:
        """Return whether an event is about these gangs, and not about those of an earlier wave."""
        return event["point"] == "restart" or event["pod"] in self._gang_of

    def read(self, event: Object) -> None:
        self.seen[event["point"]] += 1
        if event["point"] == "restart":
            self._restarted(set(event["bound"]))
            return
        name = event["pod"]
        gang = self._gang_of[name]
        match event["point"]:
            case "try":
                gang.quiet += event["at_s"] > self._quiet_s
            case "reserve":
                gang.cycles += 1
            case "permit":
                gang.permitted.add(name)
                counting = gang.counting(event["at_s"])
                if len(counting) >= gang.minimum:
                    gang.entitled |= counting
            case "unreserve":
                gang.permitted.discard(name)
                gang.entitled.discard(name)
            case "allow":
                gang.entitled.add(name)
            case "delete":
                gang.deleted_s[name] = event["at_s"]
            case "postBind":
                self._bound(gang, name)

    def find(self, placed: Iterable[str]) -> None:
        """Take in which pods are bound in the end: PostBind was called for each."""
        for name in placed:
            if name not in self._gang_of[name].bound:
                self.partly.append(f"{name} (bound, and PostBind was not asked)")

    def _bound(self, gang: Gang, name: str) -> None:
        if name not in gang.entitled and name not in gang.bound:
            self.partly.append(name)
        gang.permitted.discard(name)
        gang.bound.add(name)

    def _restarted(self, bound: set[str]) -> None:
        """Forget all but bound pods, as a restart does; a binding may have had no answer before."""
        for gang in self._gangs:
            for name in bound.intersection(gang.names):
                self._bound(gang, name)
            gang.permitted.clear()
            gang.entitled &= gang.bound


class Run:
    """Runs waves of gangs on one control plane; a seed does not repeat the timing of programs."""

    def __init__(self, plane: ControlPlane, seed: int, report: Report) -> None:
        self._report = report
        self._api = plane.api
        self._draw = random.Random(seed)
        folder = plane.bench.folder
        self._calm = folder / "calm"
        self._record = folder / "record.jsonl"
        self._mine: list[Object] = []
        self._pool = NodePool(plane.api, "gangs", NODES, cpu=str(ROOM))
        self._more = [f"{self._pool.name}-more-{each}" for each in range(NODES)]
        args = {"file": str(self._record), "calm": str(self._calm), "seed": seed}
        tokens = folder / "tokens"
        tokens.write_text(f"{TOKEN}\n")
        self._stack = Stack(
            plane,
            SCHEDULER,
            Mode(names=True),
            profile=_profile(args),
            out_of_tree=["chance:Chance"],
            python_path=[PLUGIN_FOLDER],
            sections={"server": {"waitingPods": {"tokenFile": str(tokens)}}},
        )
        self._operator = httpx.Client(
            base_url=self._stack.url, headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False
        )
        self._namespace = ""

    def wave(self, number: int, count: int) -> Counter[str]:
        """Run gangs through trouble and then calm, and judge them; return what has happened."""
        self._namespace = self._api.create_namespace(f"gangs-{number}")
        self._calm.unlink(missing_ok=True)
        self._mine.clear()
        before = self._record.stat().st_size if self._record.exists() else 0
        gangs = [self._gang(f"g{number}-{each}") for each in range(count)]
        began_s = time.time()
        self._trouble(gangs)
        self._calm.touch()
        # The nodes were too few for all pods; now they are enough.
        labels = {POOL_LABEL: self._pool.name}
        self._api.create_nodes(node(each, labels, cpu=str(ROOM)) for each in self._more)
        with suppress(TimeoutError):
            calmed = lambda: self._are_bound(gangs)  # noqa: E731
            until(calmed, "every gang that can be is bound", CALM_S, every_s=0.5)
        calm_s = time.time()
        time.sleep(SETTLE_S + QUIET_S)
        judge = Judge(gangs, calm_s + SETTLE_S)
        for event in filter(judge.is_about, self._events(before)):
            judge.read(event)
        judge.find(self._placed())
        self._report_on(judge, gangs, calm_s - began_s)
        self._api.delete_pods(self._namespace)
        until(lambda: not self._api.pods(self._namespace), "the pods are gone")
        for each in self._more:
            self._api.delete_node(each)
        return judge.seen

    def _report_on(self, judge: Judge, gangs: Sequence[Gang], lasted_s: float) -> None:
        """Report on a wave, whose gangs were bound or given up after some seconds."""
        report, most_a_pod = self._report, MOST_CYCLES_A_POD_AND_S * lasted_s + MORE_CYCLES_A_POD
        bound = sum(len(gang.bound) for gang in gangs)
        cycles = max(gang.cycles / len(gang.names) for gang in gangs)
        report.say(f"{bound} pods bound in {lasted_s:.0f} s, at most {cycles:.1f} cycles a pod")
        for name in judge.partly:
            report.mistake(f"{name} is bound, and its gang was never complete with it")
        for gang in gangs:
            pods, said = len(gang.names), f"{gang.name} spins"
            if gang.sticks:
                report.mistake(f"{gang.name} sticks: {len(gang.bound)} of {gang.minimum} are bound")
            if gang.quiet > MOST_QUIET_TRIES_A_POD * pods:
                report.mistake(f"{said}: {gang.quiet} tries while nothing changes")
            if gang.cycles > most_a_pod * pods:
                report.mistake(f"{said}: {gang.cycles} binding cycles in {lasted_s:.0f} s")

    def _gang(self, name: str) -> Gang:
        size = self._draw.randint(2, 6)
        names = [f"{name}-{each}" for each in range(size)]
        return Gang(name, names, self._draw.randint(2, size))

    def _trouble(self, gangs: Sequence[Gang]) -> None:
        """Create the pods step by step; at each step, delete, allow or reject a pod at random."""
        coming = [(gang, name) for gang in gangs for name in gang.names]
        self._draw.shuffle(coming)
        there: dict[str, str] = {}
        gone: set[str] = set()
        until_s = time.monotonic() + CHAOS_S
        restarts_s = [time.monotonic() + self._draw.uniform(2, CHAOS_S - 2)]
        a_step = -(-len(coming) // 60)
        while coming or time.monotonic() < until_s:
            batch, coming = coming[:a_step], coming[a_step:]
            made = self._api.create_pods(
                self._namespace,
                [pod(n, SCHEDULER, self._pool.name, g.labels(), cpu="1") for g, n in batch],
            )
            there |= {each["metadata"]["name"]: each["metadata"]["uid"] for each in made}
            if restarts_s and time.monotonic() > restarts_s[0]:
                restarts_s.pop()
                self._restart()
            match self._draw.choice(["delete", "allow", "reject", "reject", "", "", "", ""]):
                case "delete" if len(gone) < len(there) // 8:
                    name = self._draw.choice(sorted(there.keys() - gone))
                    gone.add(name)
                    self._note("delete", name)
                    self._api.delete_pod(self._namespace, name)
                case "allow" | "reject" as decision:
                    self._decide(decision)
            time.sleep(0.1)

    def _decide(self, decision: str) -> None:
        """Allow or reject one of the held pods at random, as an operator; allow only sometimes."""
        if decision == "allow" and self._draw.random() < 0.5:
            return
        with suppress(httpx.TransportError):
            held = self._operator.get("/waiting-pods").raise_for_status().json()["items"]
            if not held:
                return
            chosen = self._draw.choice(held)
            # The plugin may write the consequence to its file before the answer comes.
            at_s = time.time()
            if self._is_done(decision, chosen["uid"]):
                self._note(decision, chosen["name"], at_s=at_s)

    def _is_done(self, decision: str, uid: str) -> bool:
        """Send an operator's decision; return whether kubextend carried it out, or may have."""
        query = {"reason": "not now"} if decision == "reject" else {}
        try:
            answer = self._operator.post(f"/waiting-pods/{uid}/{decision}", params=query)
        except httpx.TransportError:
            return True
        if answer.status_code in {httpx.codes.NOT_FOUND, httpx.codes.CONFLICT}:
            # Meanwhile the pod is held no longer.
            return False
        return answer.raise_for_status().is_success

    def _restart(self) -> None:
        if self._draw.random() < 0.5:
            self._stack.kill_kubextend()
        else:
            self._stack.stop_kubextend()
        self._note("restart", "", bound=sorted(self._placed()))
        self._stack.start_kubextend()
        until(self._stack.is_ready, "kubextend is ready again")

    def _are_bound(self, gangs: Sequence[Gang]) -> bool:
        """Note which gangs have enough pods and are not bound; return whether there is none."""
        gone = {event["pod"] for event in self._mine if event["point"] == "delete"}
        placed = self._placed()
        for gang in gangs:
            alive = set(gang.names) - gone
            gang.sticks = len(alive) >= gang.minimum and not alive <= placed.keys()
        return not any(gang.sticks for gang in gangs)

    def _placed(self) -> dict[str, str]:
        return placed_on(self._api.pods(self._namespace))

    def _note(self, point: str, name: str, **more: object) -> None:
        self._mine.append({"at_s": time.time(), "point": point, "pod": name, **more})

    def _events(self, begin: int) -> list[Object]:
        with self._record.open("rb") as file:
            file.seek(begin)
            theirs = [json.loads(line) for line in file]
        return sorted([*self._mine, *theirs], key=lambda event: event["at_s"])

    def close(self) -> None:
        self._operator.close()
        self._stack.close()


def _profile(args: Object) -> Object:
    def enabled(*names: str) -> Object:
        return {"enabled": [{"name": name} for name in names]}

    return {
        "schedulerName": SCHEDULER,
        "plugins": {
            "preFilter": enabled("Chance", "Coscheduling"),
            "postFilter": enabled("Coscheduling"),
            "reserve": enabled("Coscheduling", "Chance"),
            # Chance writes the call to its file before Coscheduling decides.
            "permit": enabled("Chance", "Coscheduling"),
            "preBind": enabled("Chance"),
            "postBind": enabled("Chance", "Coscheduling"),
        },
        "pluginConfig": [
            {"name": "Chance", "args": args},
            {
                "name": "Coscheduling",
                "args": {"permitWaitingTimeSeconds": 5, "podGroupBackoffSeconds": 1},
            },
        ],
    }


@trial(gangs=200, seed=0)
def gangs(options: Namespace, report: Report) -> None:
    """Random gangs on a real kube-scheduler: none is bound in part, none spins."""
    seen = Counter[str]()
    with program_plane() as plane, closing(Run(plane, options.seed, report)) as run:
        waves = range(0, options.gangs, GANGS_AT_A_TIME)
        for number, first in enumerate(waves):
            seen += run.wave(number, min(GANGS_AT_A_TIME, options.gangs - first))
    # Operators allow about two pods a wave.
    least = {"restart": len(waves), "postBind": options.gangs, "allow": len(waves) // 4}
    least |= dict.fromkeys(("delete", "refuse", "reject", "unreserve"), 1)
    for point, number in least.items():
        report.judge(seen[point] >= number, f"{point} happened {seen[point]} times of {number}")
    report.tell(gangs=options.gangs, **seen)
