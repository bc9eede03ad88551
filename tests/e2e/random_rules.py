"""Random rules of LabelMatch, random pods for them, and who may run where without admission."""

import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from kubextend import core

from .admission_rules import bare_pod, profile
from .affinity_model import Object, random_affinity
from .controlplane import ROOT

POD_KEYS = ("job", "team", "size")
POD_VALUES = ("a", "b", "7", "16", "007", "9223372036854775808", "x" * 63)
LABELS: list[Object] = [
    {},
    {"zone": "a"},
    {"zone": "b", "disk": "a"},
    {"zone": "", "spot": "a", "example.com/gpus": "8"},
    {"disk": "b", "example.com/gpus": "16"},
    {"zone": "a", "disk": "7", "spot": "", "example.com/gpus": "007"},
    {"zone": "7", "example.com/gpus": "many"},
    {"zone": "a", "example.com/gpus": "99999999999999999999"},
]
NODES = [{"metadata": {"name": f"n{at}", "labels": labels}} for at, labels in enumerate(LABELS)]


def random_selector(chance: random.Random, keys: Sequence[str], values: Sequence[str]) -> str:
    """Return a selector with every operator that there is, and at times an empty one."""
    return ", ".join(_requirement(chance, keys, values) for _ in range(chance.randint(0, 3)))


def _requirement(chance: random.Random, keys: Sequence[str], values: Sequence[str]) -> str:
    key = chance.choice(keys)
    some = ",".join(chance.choices(values, k=chance.randint(1, 3)))
    one, number = chance.choice(values), chance.randint(0, 20)
    forms = (key, f"!{key}", f"{key}={one}", f"{key}=={one}", f"{key}!={one}")
    more = (f"{key} in ({some})", f"{key} notin ({some})", f"{key}>{number}", f"{key}<{number}")
    return chance.choice((*forms, *more))


def random_profile(chance: random.Random, name: str) -> Object:
    node_keys, node_values = ("zone", "disk", "spot", "example.com/gpus"), ("", "a", "b", "7")

    def selectors() -> Object:
        pods = random_selector(chance, POD_KEYS, POD_VALUES)
        nodes = random_selector(chance, node_keys, node_values)
        return {"podSelector": pods, "nodeSelector": nodes}

    filters = [selectors() for _ in range(chance.randint(1, 4))]
    scores = [{**selectors(), "score": chance.randint(0, 25)} for _ in range(chance.randint(0, 4))]
    return profile(name, filters, scores)


class Case(NamedTuple):
    scheduler: str
    labels: Object
    affinity: Object | None

    def pod(self) -> Object:
        spec = {} if self.affinity is None else {"affinity": self.affinity}
        return bare_pod(self.scheduler, self.labels, **spec)


def random_cases(chance: random.Random, scheduler: str, count: int) -> list[Case]:
    return [
        Case(
            scheduler,
            {k: chance.choice(POD_VALUES) for k in POD_KEYS if chance.random() < 0.6},
            random_affinity(chance),
        )
        for _ in range(count)
    ]


def build_judge(folder: Path) -> Path:
    """Build the program that asks kube-scheduler's own code, and return it."""
    program = folder / "affinity_judge"
    command = ["go", "build", "-o", program, "./affinity_judge"]
    subprocess.run(command, cwd=ROOT / "tests" / "go", check=True)
    return program


def judged(judge: Path, pods: Sequence[Object]) -> list[Object]:
    """Return what kube-scheduler's code says about each pod and all nodes."""
    asked = "\n".join(json.dumps({"pod": pod, "nodes": NODES}) for pod in pods)
    done = subprocess.run([judge], input=asked, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class LabelMatch:
    """What LabelMatch's filters keep without admission, as the configuration says it."""

    def __init__(self, config: Path) -> None:
        profiles = yaml.safe_load(config.read_text())["profiles"]
        self._rules = {
            each["schedulerName"]: [
                (core.Selector(rule["podSelector"]), core.Selector(rule["nodeSelector"]))
                for rule in each["pluginConfig"][0]["args"]["filters"]
            ]
            for each in profiles
        }

    def keeps(self, pod: Object) -> list[bool]:
        labels = pod["metadata"]["labels"]
        rules = self._rules[pod["spec"]["schedulerName"]]
        wanted = [nodes for pods, nodes in rules if pods.matches(labels)]
        return [all(w.matches(node["metadata"]["labels"]) for w in wanted) for node in NODES]


def points(rules: Sequence[Object], labels: Object) -> list[int]:
    """Return the points of each node for a pod, rule by rule; points for all nodes are left out."""
    given = [0] * len(NODES)
    for rule in rules:
        if rule["nodeSelector"] and core.Selector(rule["podSelector"]).matches(labels):
            wanted = core.Selector(rule["nodeSelector"])
            for at, node in enumerate(NODES):
                given[at] += rule["score"] * wanted.matches(node["metadata"]["labels"])
    return given
