"""A slow, obvious model of what admission does to a pod's node affinity, and random pods for it."""

import copy
import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .kubeapi import PREFERRED, REQUIRED, Object

KEYS = ("zone", "disk", "spot", "example.com/gpus")
VALUES = ("", "a", "b", "7", "16")
SIGNS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


@dataclass(frozen=True)
class Rule:
    """A rule for pods with these labels: expressions that nodes must meet, and weighted terms."""

    pods: Mapping[str, str]
    needs: Sequence[Object] = ()
    prefers: Sequence[Object] = field(default=())

    def concerns(self, labels: Object) -> bool:
        return self.pods.items() <= labels.items()


@dataclass(frozen=True)
class Pod:
    """What rules and other mutators see and change of a pod."""

    labels: Object
    affinity: Object | None


Change = Callable[[Pod], Pod]
"""What a policy or a webhook of somebody else does to a pod."""


def with_rules(affinity: Object | None, rules: Sequence[Rule], labels: Object) -> Object | None:
    """Return the affinity that a pod with these labels must get."""
    concerned = [rule for rule in rules if rule.concerns(labels)]
    if not concerned:
        return without_empty(copy.deepcopy(affinity))
    wanted = copy.deepcopy(affinity) or {}
    node = wanted.setdefault("nodeAffinity", {})
    needs: list[Object] = []
    for need in (need for rule in concerned for need in rule.needs):
        if need not in needs:
            needs.append(need)
    if needs and REQUIRED not in node:
        node[REQUIRED] = {"nodeSelectorTerms": [{"matchExpressions": needs}]}
    elif needs:
        for term in node[REQUIRED]["nodeSelectorTerms"]:
            if term.get("matchExpressions") or term.get("matchFields"):
                own = term.get("matchExpressions") or []
                term["matchExpressions"] = own + [need for need in needs if need not in own]
    prefers = [each for rule in concerned for each in rule.prefers]
    if prefers:
        own = node.get(PREFERRED) or []
        node[PREFERRED] = own + [each for each in prefers if each not in own]
    return without_empty(wanted)


def lacks(pod: Pod, rule: Rule) -> bool:
    """Return whether the rule concerns the pod and would change it."""
    there = without_empty(copy.deepcopy(pod.affinity))
    return with_rules(pod.affinity, [rule], pod.labels) != there


def outcomes(
    pod: Pod, rules: Sequence[Rule], change: Change, *, again: bool, comes_last: bool
) -> Iterator[Object | None]:
    """Yield what may become of a pod's affinity beside a mutator of somebody else; None: refused.

    Args:
        pod: the pod as its author wrote it.
        rules: our rules, each a policy of its own.
        change: what the other mutator does.
        again: whether kube-apiserver asks the other mutator once more after changes.
        comes_last: whether the other is asked after all our policies, as a webhook is.
    """
    labels = change(pod).labels
    ours = [rule for rule in rules if rule.concerns(pod.labels) or rule.concerns(labels)]
    orders = itertools.permutations([*ours, None])
    for order in orders:
        if order[-1] is None or not comes_last:
            yield _outcome(pod, order, change, again)


def _outcome(pod: Pod, order: Sequence[Rule | None], change: Change, again: bool) -> Object | None:
    """Return the affinity of a pod in the end, if mutators come in this order; None: refused.

    kube-apiserver asks all mutators that match, and then once more those that were asked before. It
    looks at the labels for its selectors before it begins.
    """
    asked: list[Rule] = []
    for once_more in (False, True):
        selected = pod.labels
        for each in order:
            if each is None:
                pod = change(pod) if again or not once_more else pod
            elif each.concerns(selected) and lacks(pod, each) and (each in asked or not once_more):
                asked.append(each)
                pod = Pod(pod.labels, with_rules(pod.affinity, [each], pod.labels))
    refused = any(lacks(pod, each) for each in order if each is not None)
    return None if refused else without_empty(copy.deepcopy(pod.affinity)) or {}


def without_empty(affinity: Object | None) -> Object | None:
    """Return an affinity as kube-apiserver shows it: without lists that are empty."""
    node = (affinity or {}).get("nodeAffinity") or {}
    terms = node.get(REQUIRED, {}).get("nodeSelectorTerms", [])
    for term in [*terms, *(each["preference"] for each in node.get(PREFERRED) or [])]:
        for name in ("matchExpressions", "matchFields"):
            if name in term and not term[name]:
                del term[name]
    if PREFERRED in node and not node[PREFERRED]:
        del node[PREFERRED]
    return affinity


def sorted_rules(affinity: Object | None, own: Object | None) -> Object | None:
    """Return an affinity with all that is not the pod's own in one order.

    In which order kube-apiserver applies policies is its own affair.
    """
    shown = copy.deepcopy(affinity)
    node, mine = ((each or {}).get("nodeAffinity") or {} for each in (shown, own))
    terms = node.get(REQUIRED, {}).get("nodeSelectorTerms", [])
    my_terms = mine.get(REQUIRED, {}).get("nodeSelectorTerms", [])
    for number, term in enumerate(terms):
        my_term = my_terms[number] if number < len(my_terms) else {}
        _sort_after(len(my_term.get("matchExpressions") or ()), term.get("matchExpressions"))
    _sort_after(len(mine.get(PREFERRED) or ()), node.get(PREFERRED))
    return shown


def _sort_after(count: int, entries: list[Object] | None) -> None:
    if entries:
        entries[count:] = sorted(entries[count:], key=repr)


def random_expression(chance: random.Random) -> Object:
    sign = chance.choice(SIGNS)
    expression: Object = {"key": chance.choice(KEYS), "operator": sign}
    if sign in {"In", "NotIn"}:
        expression["values"] = chance.choices(VALUES, k=chance.randint(1, 3))
    elif sign in {"Gt", "Lt"}:
        expression["values"] = [str(chance.randint(0, 20))]
    return expression


def random_term(chance: random.Random, known: Sequence[Object]) -> Object:
    """Return a term: empty, of fields, of expressions, or of both; with a known one at times."""
    kind = chance.choice(("empty", "empty lists", "fields", "expressions", "both", "known"))
    if kind == "empty":
        return {}
    if kind == "empty lists":
        return {"matchExpressions": [], "matchFields": []}
    field = {"key": "metadata.name", "operator": "In", "values": [chance.choice(("n0", "n1"))]}
    expressions = [random_expression(chance) for _ in range(chance.randint(1, 3))]
    if kind == "fields":
        return {"matchFields": [field]}
    if kind == "both":
        return {"matchExpressions": expressions, "matchFields": [field]}
    if kind == "known" and known:
        expressions.append(chance.choice(known))
    return {"matchExpressions": expressions}


def random_affinity(chance: random.Random, known: Sequence[Object] = ()) -> Object | None:
    """Return an affinity that a pod may have, at times with an expression that is known already."""
    if chance.random() < 0.15:
        return None
    affinity: Object = {}
    if chance.random() < 0.2:
        label = {"matchLabels": {"app": "web"}}
        term = {"labelSelector": label, "topologyKey": "kubernetes.io/hostname"}
        affinity["podAntiAffinity"] = {REQUIRED: [term]}
    if chance.random() < 0.15:
        return affinity
    node: Object = affinity.setdefault("nodeAffinity", {})
    if chance.random() < 0.7:
        count = chance.choice((1, 1, 2, 3, 20))
        terms = [random_term(chance, known) for _ in range(count)]
        node[REQUIRED] = {"nodeSelectorTerms": terms}
    if chance.random() < 0.5:
        node[PREFERRED] = [_preference(chance) for _ in range(chance.randint(0, 3))]
    return affinity


def _preference(chance: random.Random) -> Object:
    weight, expressions = chance.randint(1, 100), [random_expression(chance)]
    return {"weight": weight, "preference": {"matchExpressions": expressions}}
