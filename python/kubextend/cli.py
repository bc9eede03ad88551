"""The command ``kubextend``: reads options, calls the modules that do the work, prints results.

Each subcommand imports its large modules itself, so that ``--help`` and ``check`` stay fast. An
expected error is a line on stderr and exit code 1, a wrong option exit code 2.
"""
# ruff: noqa: PLC0415  the imports inside functions are what keeps --help quick

import json
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import click

from kubextend import __version__, logs
from kubextend.errors import ClusterError, ConfigError, Issue, KubextendError, WireError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from kubextend.admission.rules import PodRules, RuleDecision
    from kubextend.cluster.client import Cluster
    from kubextend.config import Configuration, EnabledPlugin, Queue
    from kubextend.core import ExtenderArgs, NodeStore
    from kubextend.decisions.explanation import Explanation, Facts
    from kubextend.doctor import Finding
    from kubextend.framework.plugin import Plugin
    from kubextend.kube_scheduler.versions import KubeVersion
    from kubextend.plugin_list import ListedPlugin
    from kubextend.profile import Profile, Profiles
    from kubextend.scheduling_queue import QueueEntry
    from kubextend.verbs import Verbs

__all__ = ["main"]

_Output: TypeAlias = Literal["table", "json"]

_INTERRUPTED = 130
_LONGEST_VALUE = 80
_LONGEST_LINE = 2000
_WATCH_S = 2.0
_POD_KINDS = {"po", "pod", "pods"}
_SERVE_OPTIONS = {
    "server.host": "--host",
    "server.port": "--port",
    "cluster.kubeconfig": "--kubeconfig",
}
_OTHER_KUBECONFIG = (
    "asked with cluster.kubeconfig of the configuration; --kubeconfig names another file"
)
_STILL_CHECKED = (
    "note: kube-scheduler checks more at its start: its own plugins and their arguments, the times "
    "of its election, its files, certificates, addresses and feature gates"
)
_EMPTY_NODES = (
    "nodeCacheCapable is false: kube-scheduler 1.33 and later scores by resources as if every "
    "node were empty (kubernetes/kubernetes#141781); with `cluster` configured names are enough"
)


class _Commands(click.Group):
    """The group of subcommands; prints each KubextendError as lines on stderr and exits with 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            for line in _issue_lines(error.issues):
                _print_line(line, err=True)
            ctx.exit(1)
        except KubextendError as error:
            raise click.ClickException(logs.printable(str(error))) from error
        except KeyboardInterrupt:
            ctx.exit(_INTERRUPTED)


class _WithConfig(click.Command):
    """A command that takes its configuration as an option, and says so to whoever gives a file."""

    allow_extra_args = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        left = super().parse_args(ctx, args)
        if ctx.args:
            ctx.fail(f"unexpected argument {ctx.args[0]}: name a file with --config {ctx.args[0]}")
        return left


class _WithFile(click.Command):
    """A command that takes its configuration as an argument, and says so to whoever gives --config.

    The commands of ``_WithConfig`` take an option.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if any(arg == "--config" or arg.startswith("--config=") for arg in args):
            ctx.fail(f"{ctx.info_name} takes the FILE itself, without --config")
        return super().parse_args(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kubextend")
def main() -> None:
    """Run kube-scheduler plugins behind an unmodified kube-scheduler."""


_config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="ExtenderConfiguration.  [default: HighCommPodFilter runs]",
)
_WITH_ADMISSION = "kubextend.with-admission"


def _remember_admission(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[_WITH_ADMISSION] = value


_with_admission_option = click.option(
    "--with-admission",
    is_flag=True,
    expose_value=False,
    callback=_remember_admission,
    help="Leave out the rules that `kubextend admission` puts on pods.",
)


@main.command(cls=_WithConfig)
@_config_option
@click.option("--host", help="Address to listen on.  [default: from the file, else 127.0.0.1]")
@click.option("--port", type=click.IntRange(1, 65535), help="[default: from the file, else 8888]")
@click.option("--kubeconfig", help="Use the Kubernetes API with this file.")
@_with_admission_option
@click.option("--log-level", type=click.Choice(logs.LEVELS), default="info", show_default=True)
@click.option("--log-format", type=click.Choice(logs.FORMATS), default="text", show_default=True)
def serve(
    *,
    config_file: Path | None,
    host: str | None,
    port: int | None,
    kubeconfig: str | None,
    log_level: logs.Level,
    log_format: logs.Format,
) -> None:
    """Answer kube-scheduler until a signal ends it."""
    from kubextend import app

    given = {"server.host": host, "server.port": port, "cluster.kubeconfig": kubeconfig}
    overrides = {path: value for path, value in given.items() if value is not None}
    with _by_option(_SERVE_OPTIONS, overrides):
        config = _called(_load(config_file, overrides))
    logs.configure(log_level, log_format)
    for note in config.notes:
        logging.getLogger(__name__).info(note)
    app.serve(config)


@main.command(cls=_WithFile)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--scheduler",
    type=click.Path(path_type=Path),
    help="kube-scheduler's own configuration: list where it does not fit FILE.",
)
@click.option(
    "--rbac", is_flag=True, help="Print the roles that FILE and its plugins need, and no summary."
)
@_with_admission_option
def check(*, file: Path, scheduler: Path | None, rbac: bool) -> None:
    """Show what FILE would run, or list everything that is wrong."""
    from kubextend import app, cluster
    from kubextend.admission.rules import compile_rules
    from kubextend.kube_scheduler.compare import scheduler_differences
    from kubextend.rbac import roles

    whole = _load(file, runs_here=False)
    config = _called(whole)
    app.check(config)
    if rbac:
        click.echo(roles(config, cluster.own_namespace()), nl=False)
        return
    for line in _summary(config):
        click.echo(line)
    for line in _admission_summary(compile_rules(whole).decisions):
        _print_line(line)
    for note in config.notes:
        click.echo(f"note: {note}")
    empty = "" if config.extender.node_cache_capable else _EMPTY_NODES
    for warning in filter(None, (empty, app.idle_warning(config))):
        _print_line(f"warning: {warning}", err=True)
    if scheduler is None:
        return
    differences = scheduler_differences(config, scheduler)
    for note in differences.notes:
        _print_line(f"note: {note}")
    if differences.issues:
        raise ConfigError(differences.issues)
    click.echo(_STILL_CHECKED)
    click.echo(f"{scheduler} fits: kube-scheduler calls kubextend as this configuration says")


@main.command(cls=_WithConfig)
@_config_option
@click.option(
    "--scheduler", type=click.Path(path_type=Path), help="kube-scheduler's own configuration."
)
@click.option("--kubeconfig", help="Look at the cluster with this file.  [default: as kubextend]")
@click.option("--kube-version", help="Version of kube-scheduler.  [default: kube-apiserver's]")
@_with_admission_option
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def doctor(
    *,
    config_file: Path | None,
    scheduler: Path | None,
    kubeconfig: str | None,
    kube_version: str | None,
    output: _Output,
) -> None:
    """Examine a running kubextend, its kube-scheduler and its cluster; change nothing.

    Exits with 1 if a check finds an error. Warnings do not count.
    """
    from kubextend import doctor as doctors
    from kubextend.admission.rules import compile_rules

    config = _load(config_file, runs_here=False)
    version = _kube_version(kube_version)
    rules: Sequence[PodRules] | None = None
    if _with_admission():
        _need_policies(version)
        compiled = compile_rules(config)
        config, rules = compiled.rest, compiled.pod_rules
    examined = doctors.Examined(config, scheduler, kubeconfig, version, rules)
    findings = list(doctors.examine(examined))
    if output == "json":
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        for finding in _told_once(findings):
            for line in _finding_lines(finding):
                _print_line(line[:_LONGEST_LINE])
    errors = sum(finding.verdict is doctors.Verdict.ERROR for finding in findings)
    if errors:
        message = "1 error found" if errors == 1 else f"{errors} errors found"
        raise click.ClickException(message)


def _told_once(findings: "Iterable[Finding]") -> "Iterator[Finding]":
    """Yield the findings; where a check says what an earlier one said, it names the earlier one."""
    firsts: dict[tuple[str, str], str] = {}
    for finding in findings:
        first = firsts.setdefault((finding.message, finding.hint), finding.check)
        if finding.message and first != finding.check:
            yield replace(finding, message=f"see {first}", hint="")
        else:
            yield finding


def _finding_lines(finding: "Finding") -> Iterator[str]:
    said = f": {finding.message}" if finding.message else ""
    yield f"{finding.verdict:8}{finding.check}: {finding.looked_at}{said}"
    if finding.hint:
        yield f"        do: {finding.hint}"


@main.command(cls=_WithFile)
@click.argument("file", type=click.Path(path_type=Path))
def convert(*, file: Path) -> None:
    """Print kubextend's configuration for a file of kube-scheduler.

    FILE is a KubeSchedulerConfiguration, a Policy, or a ConfigMap that holds one. Lists what
    `kubextend check` would find wrong in the result.
    """
    from kubextend import app, config, discovery
    from kubextend.kube_scheduler.convert import converted

    text = converted(config.read_document(*config.read_file(file)))
    click.echo(text, nl=False)
    tree = config.read_document(text.encode(), str(file))
    loaded = config.parse(tree, known=discovery.known_plugins(), runs_here=False)
    if idle := app.idle_warning(loaded):
        _print_line(f"warning: {idle}", err=True)


@main.command()
def schema() -> None:
    """Print the JSON Schema of an ExtenderConfiguration, which editors understand."""
    from kubextend.config.schema import json_schema
    from kubextend.plugins import IN_TREE

    click.echo(json.dumps(json_schema(IN_TREE), indent=2))


@main.command("scheduler-config", cls=_WithConfig)
@_config_option
@click.option(
    "--url-prefix", help="Where kube-scheduler finds kubextend.  [default: from the file]"
)
@click.option("--bind", is_flag=True, help="Let kubextend bind pods even if no plugin needs it.")
@click.option(
    "--kube-version",
    help="Version of kube-scheduler; up to 1.22 it reads a Policy.  [default: all from 1.25 on]",
)
@click.option("--kubeconfig", help="Path of the kubeconfig on kube-scheduler's machine.")
@click.option("--leader-elect/--no-leader-elect", default=None, help="[default: kube-scheduler's]")
@_with_admission_option
def scheduler_config(
    *,
    config_file: Path | None,
    url_prefix: str | None,
    bind: bool,
    kube_version: str | None,
    kubeconfig: str | None,
    leader_elect: bool | None,
) -> None:
    """Write what kube-scheduler needs to call kubextend."""
    from kubextend.kube_scheduler.write import legacy_policy, scheduler_configuration

    version = _kube_version(kube_version)
    legacy = version is not None and version.reads_policy
    if legacy and (kubeconfig or leader_elect is not None):
        message = "a Policy holds neither: give kube-scheduler --kubeconfig and --leader-elect"
        raise click.UsageError(message)
    overrides: dict[str, JsonValue] = {"extender.bind": True} if bind else {}
    if url_prefix:
        overrides["extender.urlPrefix"] = url_prefix
    if _with_admission():
        _need_policies(version)
    with _by_option({"extender.urlPrefix": "--url-prefix"}, overrides):
        config = _called(_load(config_file, overrides, runs_here=False))
    if not legacy:
        text = scheduler_configuration(
            config, kubeconfig=kubeconfig, leader_elect=leader_elect, kube_version=version
        )
        click.echo(text, nl=False)
        return
    click.echo(legacy_policy(config), nl=False)
    names = ", ".join(profile.scheduler_name for profile in config.profiles)
    message = (
        "note: a Policy has no profiles: give kube-scheduler's option --scheduler-name one of: "
        f"{names}"
    )
    click.echo(message, err=True)


@main.command(cls=_WithConfig)
@_config_option
@click.option(
    "--kube-version",
    help="Version of kube-apiserver, 1.36 or later.  [default: 1.36 and later]",
)
@click.option("--diff", is_flag=True, help="Compare with what the cluster has; write nothing.")
@click.option("--kubeconfig", help="The cluster for --diff.")
def admission(
    *, config_file: Path | None, kube_version: str | None, diff: bool, kubeconfig: str | None
) -> None:
    """Write admission policies that put static rules on pods, in place of calls of kubextend.

    With --diff, the exit code is 0 if the cluster has exactly these policies.
    """
    from kubextend.admission.policies import admission_yaml
    from kubextend.admission.rules import compile_rules

    _need_policies(_kube_version(kube_version))
    config = _load(config_file, runs_here=False)
    rules = compile_rules(config).pod_rules
    if diff:
        _compare_admission(config, rules, kubeconfig)
    else:
        click.echo(admission_yaml(rules), nl=False)


def _compare_admission(
    config: "Configuration", rules: "Sequence[PodRules]", kubeconfig: str | None
) -> None:
    """Print where the admission policies of the cluster are not those of the configuration.

    Raises:
        ClickException: there is a difference.
        ClusterError: the policies could not be listed.
    """
    from kubextend import cluster
    from kubextend.admission.differences import differences
    from kubextend.admission.policies import LABEL, policies

    settings = config.cluster
    named = kubeconfig or (settings.kubeconfig if settings else None)
    api = cluster.connect(named, settings.context if settings and not kubeconfig else None)
    lines = [*differences(policies(rules), cluster.list_admission(api, LABEL))]
    for line in lines:
        _print_line(str(line))
    if lines:
        message = f"the cluster differs in {len(lines)} places from what the configuration says"
        raise click.ClickException(message)
    click.echo("the cluster has these admission policies")


def _with_admission() -> bool:
    """Return whether the present command has the option --with-admission."""
    return bool(click.get_current_context().meta.get(_WITH_ADMISSION))


def _called(config: "Configuration") -> "Configuration":
    """Return the configuration, with --with-admission without the rules that are compiled."""
    from kubextend.admission.rules import compile_rules

    return compile_rules(config).rest if _with_admission() else config


def _need_policies(version: "KubeVersion | None") -> None:
    """Check that a version of kube-apiserver serves the policies of ``kubextend admission``.

    Raises: ClickException: the version does not.
    """
    if version is None or version.has_mutating_policies:
        return
    message = (
        f"kube-apiserver {version} serves no MutatingAdmissionPolicy of"
        " admissionregistration.k8s.io/v1, which puts rules on pods; 1.36 and later do"
    )
    raise click.ClickException(message)


def _kube_version(text: str | None) -> "KubeVersion | None":
    """Read the option --kube-version.

    Raises: UsageError: kubextend knows no such version.
    """
    from kubextend.kube_scheduler.versions import KubeVersion

    if text is None:
        return None
    try:
        version = KubeVersion.parse(text)
    except ValueError as error:
        message = f"--kube-version: {error}"
        raise click.UsageError(message) from error
    if version.note:
        click.echo(f"note: {version.note}", err=True)
    return version


_nodes_option = click.option(
    "--nodes",
    "nodes_file",
    type=click.Path(path_type=Path),
    help="The cluster's nodes (kubectl get nodes -o json), for a request that has names only.",
)
_output_option = click.option(
    "--output", type=click.Choice(["table", "json"]), default="table", show_default=True
)
_request_argument = click.argument(
    "request_file", metavar="REQUEST.json", type=click.Path(path_type=Path)
)


@main.command("filter")
@_request_argument
@_config_option
@_nodes_option
@_output_option
def filter_nodes(
    request_file: Path, config_file: Path | None, nodes_file: Path | None, output: _Output
) -> None:
    """Answer a recorded filter request, with no server."""
    recording = _Recording.read(request_file, config_file, nodes_file)
    if recording.profile is not None:
        _note_lacking([*recording.profile.pre_filter, *recording.profile.filter])
    answer = bytes(recording.verbs.filter(recording.body))
    result: dict[str, Any] = json.loads(answer)
    if output == "json":
        click.echo(answer)
    elif not result["Error"]:
        _print_table(("NODE", "RESULT", "REASON"), _verdicts(recording.names, result))
        _print_line(recording.footer)
    if result["Error"]:
        message = f"the answer is an error: {logs.printable(result['Error'])}"
        raise click.ClickException(message)


@main.command()
@_request_argument
@_config_option
@_nodes_option
@_output_option
def prioritize(
    request_file: Path, config_file: Path | None, nodes_file: Path | None, output: _Output
) -> None:
    """Answer a recorded prioritize request, with no server."""
    recording = _Recording.read(request_file, config_file, nodes_file)
    if recording.profile is not None:
        _note_lacking(plugin for plugin, _ in recording.profile.score)
        if not recording.profile.score:
            message = "note: no plugin scores in this profile, so no node has a score"
            click.echo(message, err=True)
    answer = bytes(recording.verbs.prioritize(recording.body))
    if output == "json":
        click.echo(answer)
        return
    scores = {host["Host"]: host["Score"] for host in json.loads(answer) or ()}
    best_first = sorted(recording.names, key=lambda name: -scores.get(name, 0))
    _print_table(("NODE", "SCORE"), [(name, str(scores.get(name, "-"))) for name in best_first])
    _print_line(recording.footer)


_kubeconfig_option = click.option("--kubeconfig", help="Use the Kubernetes API with this file.")


@main.command(cls=_WithConfig)
@_config_option
@_kubeconfig_option
@_output_option
def queue(config_file: Path | None, kubeconfig: str | None, output: _Output) -> None:
    """Show the scheduling queue: which pod is next, which ones are held back, and why.

    Asks the Kubernetes API and orders by the configured plugins; needs no running kubextend.
    """
    from kubextend import app, cluster, queue_controller
    from kubextend.framework.handle import NO_CLUSTER, ClusterPorts

    overrides: dict[str, JsonValue] = {"cluster.kubeconfig": kubeconfig} if kubeconfig else {}
    config = _load(config_file, overrides, runs_here=False)
    if not config.queues or config.cluster is None:
        message = "this configuration has no queue: no profile enables a queueSort plugin"
        raise click.ClickException(message)
    api = cluster.connect(config.cluster.kubeconfig, config.cluster.context)
    # Plugins at preEnqueue may look at pods.
    asks = config.needs_pods and any(profile.at("preEnqueue") for profile in config.profiles)
    ports = ClusterPorts(pods=cluster.list_pods(api, config.kept_parts)) if asks else NO_CLUSTER
    profiles = app.build_verbs(config, ports).profiles
    pods = cluster.list_pending_pods(api, config.kept_parts)
    entries = queue_controller.queue_entries(config, profiles, pods)
    rows = [_queue_row(entry) for entry in entries]
    if not any(config.queue.gate in pod.scheduling_gates for pod in pods):
        _print_line(_without_gate(config), err=True)
    if output == "json":
        click.echo(json.dumps(rows, indent=2))
        return
    head = ("POSITION", "POD", "POD GROUP", "PRIORITY", "QOS", "WAITING SINCE", "WHY")
    _print_table(
        head, [["-" if cell is None else str(cell) for cell in row.values()] for row in rows]
    )
    _print_line(_lease_line(api, config))


def _without_gate(config: "Configuration") -> str:
    """Return what to look at if no pending pod has the gate of the queue."""
    names = [profile.scheduler_name for profile in config.profiles]
    return (
        f"note: no pod has the gate {config.queue.gate}; if pods should wait, look at the policy "
        "that puts the gate on pods (deploy/queue/gate.yaml): it must list the scheduler names of "
        f"this configuration, {', '.join(names)}, and its bindings must choose the pods"
    )


def _lease_line(api: "Cluster", config: "Configuration") -> str:
    from kubextend import cluster, queue_controller

    lease = queue_controller.lease_name(config)
    try:
        holder = cluster.lease_holder(api, lease)
    except ClusterError as error:
        return f"lease {lease}: {error}"
    if holder:
        return f"lease {lease}: {holder}"
    hint = ""
    if config.queue.lease.namespace is None:
        hint = (
            "; a kubextend in a pod has its Lease in the pod's namespace: name the namespace in"
            " queue.lease.namespace"
        )
    return f"lease {lease}: nobody holds it, so no pod is released{hint}"


def _queue_row(entry: "QueueEntry") -> dict[str, Any]:
    pod = entry.info.pod
    return {
        "position": entry.position,
        "pod": f"{pod.namespace}/{pod.name}",
        "podGroup": pod.scheduling_group or None,
        "priority": pod.priority or 0,
        "qosClass": pod.qos_class,
        "waitingSince": pod.creation_timestamp,
        "why": entry.why,
    }


@main.command()
@_kubeconfig_option
@click.option("--context", help="Context of the kubeconfig.  [default: its current one]")
@click.option("--namespace", "-n", help="Only pods of this namespace.  [default: all]")
@click.option(
    "--gate", default="kubextend.dev/queue", show_default=True, help="The scheduling gate."
)
@click.option("--dry-run", is_flag=True, help="Name the pods and change nothing.")
def ungate(
    *,
    kubeconfig: str | None,
    context: str | None,
    namespace: str | None,
    gate: str,
    dry_run: bool,
) -> None:
    """Remove kubextend's scheduling gate from every pod, before you uninstall kubextend.

    Needs no configuration and no running kubextend. First remove whatever puts the gate on new
    pods.
    """
    from kubextend import cluster

    api = cluster.connect(kubeconfig, context)
    pods = [
        pod
        for pod in cluster.list_pending_pods(api)
        if gate in pod.scheduling_gates and namespace in {None, pod.namespace}
    ]
    if dry_run:
        for pod in pods:
            _print_line(f"{pod.namespace}/{pod.name} has {', '.join(pod.scheduling_gates)}")
        click.echo(f"{len(pods)} pods have the gate {gate}")
        return
    results = cluster.ungate(api, gate, pods)
    done = {cluster.Fate.RELEASED, cluster.Fate.GONE}
    failed = [result for result in results if result.fate not in done]
    for result in failed:
        pod = result.pod
        _print_line(f"error: {pod.namespace}/{pod.name}: {result.why}", err=True)
    click.echo(f"removed the gate {gate} from {len(results) - len(failed)} pods")
    if failed:
        message = f"{len(failed)} pods still have the gate"
        raise click.ClickException(message)


@main.command(cls=_WithConfig)
@_config_option
@_output_option
def plugins(config_file: Path | None, output: _Output) -> None:
    """List the plugins that a configuration may name, with their arguments.

    Imports every installed package that declares plugins by an entry point.
    """
    from kubextend import plugin_list

    config = _load(config_file, runs_here=False)
    listed = list(plugin_list.listed(config.plugins))
    if output == "json":
        click.echo(json.dumps([plugin.as_json() for plugin in listed], indent=2))
        return
    rows = [
        (plugin.name, ", ".join(plugin.extension_points) or "-", plugin.source) for plugin in listed
    ]
    _print_table(("NAME", "EXTENSION POINTS", "SOURCE"), rows)
    _print_args(listed)
    for plugin in listed:
        if plugin.error:
            click.echo(f"error: {plugin.name}: {plugin.error}", err=True)


def _print_args(listed: "Sequence[ListedPlugin]") -> None:
    rows = [
        (plugin.name, arg.name, arg.type, "required" if arg.required else str(arg.default))
        for plugin in listed
        for arg in plugin.args
    ]
    if rows:
        click.echo()
        _print_table(("NAME", "ARG", "TYPE", "DEFAULT"), rows)


@main.command()
@click.argument("pod", required=False)
@click.option("--namespace", "-n", default="default", show_default=True, help="Of the pod.")
@_config_option
@click.option("--server", help="URL of kubextend's verbs.  [default: from the configuration]")
@click.option(
    "--service",
    metavar="NAMESPACE/NAME",
    help="Reach the pods of this Service through the Kubernetes API, as kubectl port-forward does.",
)
@click.option("--ca-file", help="CA certificates of the server.  [default: from the configuration]")
@click.option("--cert-file", help="Your client certificate, one of server.decisions.allowedNames.")
@click.option("--key-file", help="The key of --cert-file.")
@click.option("--token-file", help="A bearer token.  [default: server.decisions.tokenFile]")
@_kubeconfig_option
@click.option("--context", help="Context of the kubeconfig.  [default: its current one]")
@click.option("--node", help="Show also what was decided about this node.")
@click.option("--watch", is_flag=True, help="Ask every two seconds, and print what changes.")
@click.option(
    "--file",
    "capture",
    type=click.Path(path_type=Path),
    help="Explain a file that --output json wrote, and ask nobody.",
)
@_output_option
def why(  # noqa: PLR0913  one for each option
    *,
    pod: str | None,
    namespace: str,
    config_file: Path | None,
    server: str | None,
    service: str | None,
    ca_file: str | None,
    cert_file: str | None,
    key_file: str | None,
    token_file: str | None,
    kubeconfig: str | None,
    context: str | None,
    node: str | None,
    watch: bool,
    capture: Path | None,
    output: _Output,
) -> None:
    """Say why POD is on its node, or why it is on none.

    Asks kubextend, and the Kubernetes API for the pod and its Events. The exit code is 1 if neither
    answers.
    """
    from kubextend import cluster
    from kubextend import why as whys
    from kubextend.admission.rules import compile_rules
    from kubextend.config import model
    from kubextend.decisions.explanation import Cause, explain

    if pod is None or capture is not None:
        _print_captured(pod, node, capture, output)
        return
    _check_pod_name(pod)
    if key_file is not None and cert_file is None:
        message = "--key-file is the key of --cert-file: give both"
        raise click.UsageError(message)
    config = _load(config_file, runs_here=False)
    tls = config.extender.tls_config
    url = server or config.url_prefix
    one = whys.Server(
        url,
        ca_file or tls.ca_file,
        cert_file,
        key_file,
        token_file or config.server.decisions.token_file,
        server_name=tls.server_name if url.rstrip("/") == config.url_prefix else None,
    )
    configured = config.cluster or model.Cluster()
    hint = _OTHER_KUBECONFIG if kubeconfig is None and configured.kubeconfig else ""
    kubeconfig = kubeconfig or configured.kubeconfig
    connect = cache(partial(cluster.connect, kubeconfig, context or configured.context))
    rules = compile_rules(config).decisions
    asked: whys.Server | whys.Replicas = one
    if service is not None:
        asked = whys.Replicas.of(one, service, config.server.port, connect())
    told = ""
    while True:
        facts = whys.gathered(namespace, pod, asked, connect, config.queue.gate, hint)
        if not told and (message := whys.unanswered(facts)):
            raise KubextendError(message)
        facts = whys.with_rules(facts, rules, connect)
        explanation = explain(facts)
        if explanation.sentence != told:
            told = explanation.sentence
            _print_why(facts, explanation, output)
            if node is not None and output == "table":
                for line in whys.node_lines(node, whys.node_of(facts, node, asked)):
                    _print_line(line)
        if not watch or explanation.cause in {Cause.BOUND, Cause.ENDED, Cause.NO_SUCH_POD}:
            return
        time.sleep(_WATCH_S)


def _check_pod_name(pod: str) -> None:
    """Raise UsageError if the name of a pod has its namespace or its kind before it."""
    where, slash, name = pod.partition("/")
    if slash:
        written = name if where in _POD_KINDS else f"{name} -n {where}"
        message = f"{pod} is no name of a pod: write {written}"
        raise click.UsageError(message)


def _print_captured(
    pod: str | None, node: str | None, capture: Path | None, output: _Output
) -> None:
    """Print what a file of ``why --output json`` says about its pod.

    Raises: UsageError: there is no file, or the command line names a pod or a node beside it.
    """
    from kubextend import why as whys
    from kubextend.decisions.explanation import explain

    if pod is not None or capture is None:
        message = "give either the POD, or --file and the file of one pod"
        raise click.UsageError(message)
    if node is not None:
        message = "give either --node, or --file: a file says nothing about single nodes"
        raise click.UsageError(message)
    facts = whys.read_capture(capture)
    _print_why(facts, explain(facts), output)


def _print_why(facts: "Facts", explanation: "Explanation", output: _Output) -> None:
    from kubextend import why as whys

    if output == "json":
        click.echo(json.dumps(whys.captured(facts, explanation), indent=2))
        return
    for line in whys.lines_of(facts, explanation):
        if isinstance(line, str):
            _print_line(line[:_LONGEST_LINE])
        else:
            head, rows = line
            _print_table(
                head, [[logs.shortened(text, whys.MOST_CELL) for text in row] for row in rows]
            )


@main.command("new-plugin")
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the package, empty or not there yet.  [default: after the name]",
)
@click.option(
    "--point",
    type=click.Choice(["filter", "score"]),
    default="score",
    show_default=True,
    help="Extension point of the plugin.",
)
def new_plugin(name: str, directory: Path | None, point: Literal["filter", "score"]) -> None:
    """Write a package with the plugin NAME, its test and its configuration."""
    from kubextend.new_plugin import NewPlugin

    package = NewPlugin.named(name, point)
    folder = directory or Path(package.distribution)
    for file in package.write(folder):
        click.echo(file)
    click.echo(f"\nnext: pip install -e {folder} && python -m pytest {folder}")


@dataclass(frozen=True, slots=True)
class _RecordedNodes:
    """A source of nodes for verbs: those of the file given by ``--nodes``, not watched ones.

    Attributes:
        store: the nodes.
        synced: always True.
    """

    store: "NodeStore"
    synced: bool = True

    def age_s(self) -> float | None:
        return None


@dataclass(frozen=True, slots=True)
class _Recording:
    """A recorded filter or prioritize request, and the verbs that answer it.

    Attributes:
        body: the body of the request.
        verbs: the verbs of the configuration.
        profile: the profile for the pod; None if no profile has the pod's schedulerName.
        names: the names of the nodes, in the order of the request.
        footer: a line to print that names the pod and the profile.
    """

    body: bytes
    verbs: "Verbs"
    profile: "Profile | None"
    names: Sequence[str]
    footer: str

    @classmethod
    def read(cls, request: Path, config_file: Path | None, nodes: Path | None) -> "_Recording":
        """Read a recorded request, the configuration and the nodes from files.

        Args:
            request: the file with the body of the request.
            config_file: the configuration; None for the default.
            nodes: the file with the cluster's nodes; None if the request has whole nodes.

        Raises:
            KubextendError: the configuration cannot run.
            click.ClickException: a file cannot be read; the request has only names of nodes and
                ``nodes`` is None; or ``nodes`` lacks nodes of the request.
        """
        from kubextend import app, core
        from kubextend.framework.handle import ClusterPorts

        # What is printed has the reason of every rejected node.
        config = _load(config_file, {"extender.lastFilter": False})
        body = _read(request)
        watched = None
        if nodes:
            watched = _RecordedNodes(core.NodeStore(**config.kept_parts))
            _fill(watched.store, nodes)
        with _naming(request):
            args = core.read_args(body, watched=watched.store if watched else None)
        if args.names_mode and not watched:
            message = f"{request} has names only: give their nodes with --nodes"
            raise click.UsageError(message)
        names = list(args.nodes.names) if args.nodes else []
        if args.names_mode and args.nodes and not args.nodes.known.all():
            absent = len(names) - args.nodes.known.count()
            message = f"{absent} of the {len(names)} nodes of {request} are not in {nodes}"
            raise click.ClickException(message)
        verbs = app.build_verbs(config, ClusterPorts(nodes=watched))
        profile = verbs.profiles.for_pod(args.pod) if args.pod else None
        return cls(body, verbs, profile, names, _footer(args, verbs.profiles))


def _fill(store: "NodeStore", file: Path) -> None:
    """Put the nodes of a file into an empty store.

    Raises: click.ClickException: the file cannot be read, or is no list of nodes.
    """
    data = _read(file)
    with _naming(file):
        store.replace(data)
    if not store.nodes().names and "items" not in json.loads(data.decode(errors="replace")):
        message = (
            f"{file} has no items, so it is no list of nodes: "
            "`kubectl get nodes --output json` writes such a file"
        )
        raise click.ClickException(message)


def _note_lacking(plugins: "Iterable[Plugin]") -> None:
    """Print on stderr what each plugin lacks that answers a recorded request.

    ``kubextend filter`` and ``kubextend prioritize`` start no plugin, and ask no Kubernetes API. A
    plugin then lacks what it gathers in the background, such as numbers from Prometheus, the pods
    of the cluster, and the objects that it reads by informers.
    """
    for plugin in {plugin.name: plugin for plugin in plugins}.values():
        reads = ["pods"] if getattr(plugin, "needs_pods", False) else []
        reads += getattr(plugin, "informers", ())
        if reads:
            message = (
                f"note: {plugin.name} reads {', '.join(reads)}, which a recorded request lacks: "
                "try the plugin in a test with kubextend.testing.Cluster"
            )
            click.echo(message, err=True)
        if getattr(plugin, "start", None) is not None:
            message = (
                f"note: {plugin.name} is not started for a recorded request and answers without "
                "what it gathers in the background"
            )
            click.echo(message, err=True)


def _footer(args: "ExtenderArgs", profiles: "Profiles") -> str:
    if args.pod is None:
        return "the request has no pod"
    pod = f"pod {args.pod.namespace}/{args.pod.name}"
    from kubextend.verbs.unknown_schedulers import why_unknown

    if why := why_unknown(profiles, args.pod):
        return f"{pod}: {why}"
    wanted = args.pod.scheduler_name
    if profiles.for_pod(args.pod) is None:
        return f"{pod}: passThrough lists {wanted}, so it passes through untouched"
    return f"{pod}, profile {wanted}"


def _verdicts(names: Sequence[str], result: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    kept = set(result["NodeNames"] or ())
    if result["Nodes"]:
        kept |= {node["metadata"]["name"] for node in result["Nodes"]["items"] or ()}
    reasons = (result["FailedNodes"] or {}) | (result["FailedAndUnresolvableNodes"] or {})
    return [(name, "kept" if name in kept else "rejected", reasons.get(name, "")) for name in names]


def _print_line(text: str, *, err: bool = False) -> None:
    """Print one line of text to stdout, or stderr if ``err``; escape unprintable characters."""
    click.echo(logs.printable(text), err=err)


def _print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = [[logs.printable(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _load(
    file: Path | None,
    overrides: "Mapping[str, JsonValue] | None" = None,
    *,
    runs_here: bool = True,
) -> "Configuration":
    from kubextend import discovery

    return discovery.load(file, overrides=overrides, runs_here=runs_here)


@contextmanager
def _by_option(options: Mapping[str, str], overrides: Mapping[str, object]) -> Iterator[None]:
    """Name the option in issues about a field whose value comes from an option.

    Args:
        options: the option of each field, by the field's path.
        overrides: the values that options gave, by the field's path.
    """
    try:
        yield
    except ConfigError as error:
        issues = [
            replace(issue, path=options[issue.path])
            if issue.path in options.keys() & overrides.keys()
            else issue
            for issue in error.issues
        ]
        raise ConfigError(issues) from error


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    try:
        yield
    except WireError as error:
        message = f"{file}: {error}"
        raise click.ClickException(message) from error


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        message = f"{file}: cannot be read: {error.strerror or type(error).__name__}"
        raise click.ClickException(message) from error


def _summary(config: "Configuration") -> Iterator[str]:
    extender = config.extender
    names = "names only, looked up among the watched nodes"
    nodes = names if extender.node_cache_capable else "whole nodes"
    yield f"called at: {config.url_prefix}"
    yield f"verbs: {', '.join(config.verbs) or 'none'}"
    yield f"nodes in a request: {nodes}"
    yield f"Kubernetes API: {_cluster(config)}"
    yield f"score scale: {config.score_scale}"
    if config.server.lease is not None or config.needs_leader:
        yield f"answered by: {_answered_by(config)}"
    if config.guard.resources:
        yield "guard: resources, so kubextend lists all nodes and pods and binds each pod"
    if config.queues:
        yield f"queue: {_queue(config.queue)}"
    for profile in config.profiles:
        yield f"profile {profile.scheduler_name}:"
        if profile.state:
            yield f"  needs a leader: {', '.join(profile.state)}"
        for point, plugins in profile.points.items():
            listed = (_plugin(plugin, scored=point == "score") for plugin in plugins)
            yield f"  {point}: {', '.join(listed)}"
        if not profile.points:
            yield "  no plugin: its pods pass through untouched"
    if config.pass_through:
        yield f"passed through: {', '.join(config.pass_through)}"


def _admission_summary(decisions: "Sequence[RuleDecision]") -> Iterator[str]:
    """Yield a line for each rule of the profiles that have a static rule."""
    for name, group in groupby(decisions, key=lambda decision: decision.scheduler_name):
        of_profile = [*group]
        if any(decision.rule for decision in of_profile):
            yield f"rules of {name} as node affinity, by kubextend admission:"
            yield from (f"  {decision}" for decision in of_profile)


def _cluster(config: "Configuration") -> str:
    if config.cluster is None:
        return "not used"
    source = config.cluster.kubeconfig or "the service account, else the default kubeconfig"
    return f"{source}, context {config.cluster.context}" if config.cluster.context else source


def _answered_by(config: "Configuration") -> str:
    lease = config.server.lease
    if lease is not None:
        namespace = lease.namespace or "of the pod"
        return f"the replica that holds the Lease {lease.name} in the namespace {namespace}"
    return "one replica only: set server.lease before kube-scheduler may call several"


def _queue(settings: "Queue") -> str:
    turns = "" if settings.fair_queuing == "None" else f"fairQueuing {settings.fair_queuing}, "
    hold = f"maxHold {settings.max_hold}"
    return f"{settings.strategy}, {turns}window {settings.window}, {hold}, gate {settings.gate}"


def _plugin(plugin: "EnabledPlugin", *, scored: bool) -> str:
    return f"{plugin.name} (weight {plugin.weight})" if scored else plugin.name


def _issue_lines(issues: Sequence[Issue]) -> Iterator[str]:
    for issue in issues:
        where = f"{issue.path}: " if issue.path else ""
        yield f"error: {where}{issue.message}"
        if issue.value not in (None, "", {}, []):
            yield f"  found: {_shown(issue.value)}"
        if issue.hint:
            yield f"  hint: {issue.hint}"


def _shown(value: object) -> str:
    return logs.shortened(json.dumps(value, default=str), _LONGEST_VALUE)
