"""Decides which rules of a configuration kube-apiserver can put on pods, as node affinity.

Such a rule is *compiled*; kubextend must be *called* for every other rule. A plugin's Filter or
Score is compiled as a whole or not at all, since a rule that both affinity and kubextend score
would count twice.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from kubextend import core
from kubextend.config import Configuration, EnabledPlugin, ResolvedProfile
from kubextend.config.model import Plugins
from kubextend.errors import PluginError
from kubextend.framework.admission import AdmissionRules, PreferredNodes, RequiredNodes

__all__ = [
    "CompiledRules",
    "PodRules",
    "Requirement",
    "RuleDecision",
    "Term",
    "compile_rules",
    "points_without_node_affinity",
    "requirements_of",
]

Requirement: TypeAlias = tuple[str, str, tuple[str, ...]]
"""A requirement on labels: key, operator of node affinity, values."""

Term: TypeAlias = tuple[Requirement, ...]
"""Requirements that labels must all meet."""

_NODE_AFFINITY: Final = "NodeAffinity"
# The extension points of kube-scheduler without which NodeAffinity does not do the same.
_POINTS_OF: Final = {"filter": ("preFilter", "filter"), "score": ("preScore", "score")}
_MAX_WEIGHT: Final = 100
# A policy compares each requirement with each expression in each term of the pod's affinity, and
# kube-apiserver refuses the pod if that costs too much. Tried on 1.37 with pods of 20 terms with 20
# expressions each: 10 requirements are put on the pod, with 50 the pod is refused.
_MAX_REQUIREMENTS: Final = 10
# PreScore only prepares Score, and kube-scheduler calls no extender at the other points.
_NO_RULES: Final = frozenset({"preEnqueue", "queueSort", "preScore"})


class RuleDecision(NamedTuple):
    """Whether one rule of a profile is compiled, and why not.

    Attributes:
        scheduler_name: the ``spec.schedulerName`` of the profile.
        plugin: the name of the plugin.
        point: the extension point of the rule.
        rule: the rule in words; empty for all that the plugin does at the extension point.
        why_called: why kubextend must be called for the rule; empty if the rule is compiled.
        required: the rule itself, if it is one of Filter that can be said as node affinity.
    """

    scheduler_name: str
    plugin: str
    point: str
    rule: str = ""
    why_called: str = ""
    required: RequiredNodes | None = None

    def __str__(self) -> str:
        what = f"{self.plugin} at {self.point}" + (f", {self.rule}" if self.rule else "")
        return f"{what}: {f'called: {self.why_called}' if self.why_called else 'compiled'}"


@dataclass(frozen=True, slots=True)
class PodRules:
    """The compiled rules of one profile for the pods that one selector matches.

    Attributes:
        scheduler_name: the ``spec.schedulerName`` of the profile.
        pods: requirements on the labels of the pods.
        required: requirements that belong into every required term of the pods' node affinity.
        preferred: preferred term -> its weight, 1..100.
    """

    scheduler_name: str
    pods: Term
    required: Term
    preferred: Mapping[Term, int]


@dataclass(frozen=True, slots=True)
class CompiledRules:
    """The compiled rules of a configuration, and what is left to be called.

    Attributes:
        decisions: one entry for each rule, in the order of the configuration.
        pod_rules: the compiled rules, by profile and selector of pods.
        rest: the configuration without the plugins whose rules are compiled.
    """

    decisions: tuple[RuleDecision, ...]
    pod_rules: tuple[PodRules, ...]
    rest: Configuration


def compile_rules(config: Configuration) -> CompiledRules:
    """Decide for each rule of a checked configuration whether it is compiled.

    Raises: PluginError: the method ``admission`` of a plugin fails, or returns no valid rules.
    """
    compilers = [_Compiler(config, index) for index in range(len(config.profiles))]
    return CompiledRules(
        tuple(decision for compiler in compilers for decision in compiler.decisions),
        tuple(rules for compiler in compilers for rules in compiler.pod_rules()),
        replace(config, profiles=tuple(compiler.rest() for compiler in compilers)),
    )


class _Compiler:
    """Decides about the rules of one profile.

    Attributes:
        decisions: one entry for each rule of the profile.
    """

    def __init__(self, config: Configuration, index: int) -> None:
        self._config = config
        self._profile = config.profiles[index]
        self._offers = dict(_offers(config, self._profile))
        self._required: list[tuple[str, RequiredNodes]] = []
        self._preferred: list[tuple[str, PreferredNodes]] = []
        self._left_out: dict[str, set[str]] = {}
        self.decisions: list[RuleDecision] = []
        for point, plugins in self._profile.points.items():
            for plugin in plugins:
                self._decide(point, plugin)

    def pod_rules(self) -> Iterator[PodRules]:
        """Yield the compiled rules for each selector of pods that has any."""
        required = _by_pods(self._required)
        preferred: dict[Term, Counter[Term]] = {}
        for name, preference in self._preferred:
            nodes = _term(name, preference.node_selector)
            # Points for every node, or none, change no order of nodes.
            if nodes and preference.score:
                pods = _term(name, preference.pod_selector)
                preferred.setdefault(pods, Counter())[nodes] += preference.score
        seen: Counter[tuple[Term, int]] = Counter()
        for pods in dict.fromkeys((*required, *preferred)):
            needed = tuple(required.get(pods, ()))
            wanted = {
                _told_apart(nodes, weight, seen): weight
                for nodes, weight in preferred.get(pods, {}).items()
            }
            if needed or wanted:
                yield PodRules(self._profile.scheduler_name, pods, needed, wanted)

    def rest(self) -> ResolvedProfile:
        """Return the profile without the plugins whose rules are compiled."""
        points = {
            point: tuple(each for each in plugins if each.name not in self._left_out_at(point))
            for point, plugins in self._profile.points.items()
        }
        return replace(
            self._profile, points={point: kept for point, kept in points.items() if kept}
        )

    def _left_out_at(self, point: str) -> set[str]:
        return self._left_out.get(point, set())

    def _decide(self, point: str, plugin: EnabledPlugin) -> None:
        offer = self._offers.get(plugin.name)
        if point == "filter" and offer is not None and offer.required is not None:
            self._decide_filter(plugin.name, offer, offer.required)
        elif point == "score" and offer is not None and offer.preferred is not None:
            self._decide_score(plugin, offer.preferred)
        elif point not in _NO_RULES:
            why = "the plugin has no static rules for it"
            if point not in _POINTS_OF:
                why = "node affinity has nothing like it"
            self._say(point, plugin.name, "", why)

    def _decide_filter(
        self, name: str, offer: AdmissionRules, rules: Sequence[RequiredNodes]
    ) -> None:
        named = [(name, rule) for rule in rules]
        why = self._why_none() or self._why_too_many(named)
        for rule in rules:
            self._say("filter", name, _words(rule), why, rule)
        if why:
            return
        self._required += named
        if offer.filter_beyond:
            self._say("filter", name, "", offer.filter_beyond)
        else:
            self._left_out.setdefault("filter", set()).add(name)

    def _decide_score(self, plugin: EnabledPlugin, rules: Sequence[PreferredNodes]) -> None:
        why = self._why_none() or self._why_no_preferences()
        for rule in rules:
            self._say("score", plugin.name, f"{_words(rule)} scores {rule.score}", why)
        if not why:
            self._preferred += [(plugin.name, rule) for rule in rules]
            self._left_out.setdefault("score", set()).add(plugin.name)

    def _say(
        self,
        point: str,
        plugin: str,
        rule: str,
        why_called: str,
        required: RequiredNodes | None = None,
    ) -> None:
        name = self._profile.scheduler_name
        self.decisions.append(RuleDecision(name, plugin, point, rule, why_called, required))

    def _why_none(self) -> str:
        """Return why no rule of the profile can be compiled; empty if rules can be."""
        resources = self._config.extender.managed_resources
        if resources:
            names = ", ".join(resource.name for resource in resources)
            return f"extender.managedResources keeps it from pods that do not request {names}"
        return ""

    def _why_too_many(self, rules: Sequence[tuple[str, RequiredNodes]]) -> str:
        """Return why rules of Filter are too many beside the compiled ones; empty if they are not.

        Args:
            rules: the name of the plugin, and the rule.
        """
        beside = _by_pods((*self._required, *rules))
        most = max((len(requirements) for requirements in beside.values()), default=0)
        if most <= _MAX_REQUIREMENTS:
            return ""
        return (
            f"with it, pods of one selector have {most} required labels of nodes, and from "
            f"{_MAX_REQUIREMENTS + 1} on kube-apiserver may refuse pods"
        )

    def _why_no_preferences(self) -> str:
        """Return why the points of this profile cannot be weights of preferred node affinity."""
        scoring = [
            (plugin, offer.preferred)
            for plugin in self._profile.at("score")
            if (offer := self._offers.get(plugin.name)) is not None and offer.preferred
        ]
        if len({plugin.weight for plugin, _ in scoring}) > 1:
            names = ", ".join(f"{plugin.name} {plugin.weight}" for plugin, _ in scoring)
            return f"preferred node affinity has one weight for all plugins, and not {names}"
        if sum(rule.score for _, rules in scoring for rule in rules) > _MAX_WEIGHT:
            return f"the points of this profile add up to more than {_MAX_WEIGHT}"
        return ""


def _offers(
    config: Configuration, profile: ResolvedProfile
) -> Iterator[tuple[str, AdmissionRules]]:
    """Yield the name and the static rules of each plugin of a profile that offers any."""
    for name, args in profile.args.items():
        offer = config.plugins[name].admission(args)
        if offer is not None:
            yield name, offer


def points_without_node_affinity(plugins: Plugins) -> frozenset[str]:
    """Return the points, filter and score, at which kube-scheduler does not run NodeAffinity.

    Args:
        plugins: the plugins of a profile of kube-scheduler.
    """
    given = plugins.by_point()
    return frozenset(
        ours
        for ours, points in _POINTS_OF.items()
        if any(
            {each.name for each in given[point].disabled} & {"*", _NODE_AFFINITY}
            and _NODE_AFFINITY not in {each.name for each in given[point].enabled}
            for point in ("multiPoint", *points)
        )
    )


def requirements_of(selector: str) -> Term:
    """Return the requirements of a selector; a requirement that comes twice is there once.

    Raises: ValueError: the text is no selector.
    """
    requirements = core.Selector(selector).requirements
    return tuple(dict.fromkeys((key, sign, tuple(values)) for key, sign, values in requirements))


def _term(plugin: str, selector: str) -> Term:
    """Return the requirements of a selector of a plugin's rule.

    Raises: PluginError: the text is no selector.
    """
    try:
        return requirements_of(selector)
    except ValueError as error:
        raise PluginError(plugin, "admission", f"{selector!r}: {error}") from error


def _by_pods(
    rules: Sequence[tuple[str, RequiredNodes]],
) -> dict[Term, dict[Requirement, None]]:
    """Return the requirements on nodes, each once and in order, by the selector of pods.

    Args:
        rules: the name of the plugin, and the rule.
    """
    found: dict[Term, dict[Requirement, None]] = {}
    for name, rule in rules:
        pods = _term(name, rule.pod_selector)
        found.setdefault(pods, {}).update(dict.fromkeys(_term(name, rule.node_selector)))
    return found


def _told_apart(nodes: Term, weight: int, seen: Counter[tuple[Term, int]]) -> Term:
    """Return a term for the same nodes that no earlier term of the same weight equals.

    The points of two rules for overlapping sets of pods are added, but a policy adds no term that
    the pod has already. A requirement that is said twice makes another term for the same nodes.
    """
    seen[nodes, weight] += 1
    return nodes + nodes[:1] * (seen[nodes, weight] - 1)


def _words(rule: RequiredNodes | PreferredNodes) -> str:
    pods = f"pods {rule.pod_selector}" if rule.pod_selector else "all pods"
    return f"{pods} -> nodes {rule.node_selector}"
