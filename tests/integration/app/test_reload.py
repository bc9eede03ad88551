"""A running server takes over the profiles of a changed configuration file, or keeps its own."""

import asyncio
import json
import logging
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pytest
from prometheus_client import Gauge
from pydantic import BaseModel

from kubextend import app, config, core
from kubextend.config import ExtenderConfiguration
from kubextend.discovery import known_plugins
from kubextend.errors import ConfigError, Issue
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import ClusterPorts, Handle
from kubextend.framework.plugin import Rejection
from kubextend.framework.status import Status
from kubextend.metrics import Metrics
from kubextend.profile import Profile
from kubextend.reload import Reloader, why_restart

# Arguments of Counts: its constructor calls sys.exit, or waits until LET_GO is set.
EXITS, FOR_EVER = 13, 14
HANGS, LET_GO = threading.Event(), threading.Event()

NODES = [{"metadata": {"name": name, "labels": {"colour": name}}} for name in ("red", "green")]


class File:
    """A configuration file that a test writes.

    Attributes:
        text: what the file holds; empty: the file cannot be read.
        loads: how often the file was loaded.
    """

    def __init__(self, *profiles: dict[str, Any], **sections: Any) -> None:
        self.loads = 0
        self.write(*profiles, **sections)

    def write(self, *profiles: dict[str, Any], **sections: Any) -> None:
        kind = {"apiVersion": "kubextend.dev/v1alpha1", "kind": "ExtenderConfiguration"}
        self.text = json.dumps(kind | sections | {"profiles": profiles})

    def read(self) -> bytes:
        if not self.text:
            raise ConfigError([Issue("", "cannot be read")])
        return self.text.encode()

    def load(self, data: bytes) -> ExtenderConfiguration:
        self.loads += 1
        try:
            tree = json.loads(data)
        except json.JSONDecodeError as error:
            raise ConfigError([Issue("", str(error))]) from error
        known = {"Tells": Tells, "Counts": Counts, "Claims": Claims, "Details": Details}
        return config.parse(tree, known=known_plugins(known))


class Tells:
    """A plugin that records its calls, and whose Permit holds the pod if the arguments say so."""

    name = "Tells"
    made: ClassVar[list["Tells"]] = []
    starts: ClassVar[bool] = True

    def __init__(self, handle: Handle) -> None:
        del handle
        self.calls: list[str] = []
        self.states: list[CycleState] = []
        self.made.append(self)

    def start(self) -> None:
        self.calls.append("start")
        if not self.starts:
            message = "no database"
            raise OSError(message)

    def stop(self) -> None:
        self.calls.append("stop")

    def filter_nodes(
        self, state: CycleState, _pod: core.Pod, _nodes: core.Nodes
    ) -> Sequence[Rejection]:
        self.calls.append("filter")
        self.states.append(state)
        return []

    def score_nodes(self, state: CycleState, _pod: core.Pod, nodes: core.Nodes) -> list[int]:
        self.calls.append("score")
        self.states.append(state)
        return [0] * len(nodes)


class Plain:
    def filter_nodes(
        self, _state: CycleState, _pod: core.Pod, _nodes: core.Nodes
    ) -> Sequence[Rejection]:
        return []


class Claims(Plain):
    name = "Claims"
    informers = ("persistentvolumeclaims",)


class Details(Plain):
    name = "Details"
    needs_details = True


def loaded(file: File) -> ExtenderConfiguration:
    return file.load(file.read())


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    Tells.made.clear()
    yield
    Tells.starts = True


def wants(
    colour: str, name: str = "default-scheduler", reason: str = "of another colour"
) -> dict[str, Any]:
    """Return a profile that keeps the nodes of one colour."""
    args = {"filters": [{"nodeSelector": f"colour={colour}", "reason": reason}]}
    return {
        "schedulerName": name,
        "plugins": {"filter": {"enabled": [{"name": "LabelMatch"}]}},
        "pluginConfig": [{"name": "LabelMatch", "args": args}],
    }


def test_metrics_that_a_given_up_constructor_makes_never_come_into_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server(File(counting(1)))
    make, is_made = server.reloader.make, threading.Event()
    HANGS.clear()
    LET_GO.clear()

    async def until_it_hangs(_seconds: float) -> None:
        await asyncio.to_thread(HANGS.wait)

    def make_late(*arguments: Any) -> Profile:
        hang()
        made = make(*arguments)
        is_made.set()
        return made

    def make_before(*arguments: Any) -> Profile:
        made = make(*arguments)
        LET_GO.set()
        assert is_made.wait(60)
        return made

    try:
        with monkeypatch.context() as first:
            first.setattr(server.reloader, "wait_for_plugins", until_it_hangs)
            first.setattr(server.reloader, "make", make_late)
            server.file.write(counting(2))
            server.look()
        assert server.counted("refused") == 1
        monkeypatch.setattr(server.reloader, "make", make_before)
        server.file.write(counting(3))
        server.look()
    finally:
        HANGS.set()
        LET_GO.set()
    labels = {"plugin": "Counts", "profile": "default-scheduler"}
    assert server.metrics.registry.get_sample_value("my_number", labels) == 3


def telling(name: str = "default-scheduler", **policy: Any) -> dict[str, Any]:
    """Return a profile with Tells at filter and score."""
    return {
        "schedulerName": name,
        "plugins": {point: {"enabled": [{"name": "Tells"}]} for point in ("filter", "score")},
        "pluginConfig": [{"name": "Tells"} | policy],
    }


class Server:
    """A server built from a file, with the Reloader that follows the file."""

    def __init__(self, file: File) -> None:
        self.file = file
        built = app.build(loaded(file), file)
        assert built._reloader is not None
        self.verbs, self.reloader, self.metrics = built.verbs, built._reloader, built.metrics
        self.told: list[str] = []
        self.reloader.tell = self.told.append
        asyncio.run(built._starts.run())

    def look(self, times: int = 2) -> list[Profile]:
        """Look at the file so many times; return the profiles that the last look replaced."""

        async def looks() -> list[Profile]:
            return [await self.reloader.look() for _ in range(times)][-1]

        return asyncio.run(looks())

    def kept(self, scheduler: str = "default-scheduler", uid: str = "u") -> list[str]:
        metadata = {"name": "p", "namespace": "ml", "uid": uid}
        of = {"metadata": metadata, "spec": {"schedulerName": scheduler}}
        body = json.dumps({"Pod": of, "Nodes": {"items": NODES}}).encode()
        answer = json.loads(self.verbs.filter(body))
        assert not answer["Error"]
        return [item["metadata"]["name"] for item in answer["Nodes"]["items"]]

    def scored(self) -> None:
        metadata = {"name": "p", "namespace": "ml", "uid": "u"}
        body = {"Pod": {"metadata": metadata}, "Nodes": {"items": NODES}}
        assert json.loads(self.verbs.prioritize(json.dumps(body).encode()))

    def counted(self, result: str) -> float:
        value = self.metrics.registry.get_sample_value(
            "kubextend_configuration_reloads_total", {"result": result}
        )
        return value or 0.0

    def refuses(self) -> bool:
        """Return whether the metrics say that the file as it is now is not in use."""
        return self.metrics.registry.get_sample_value("kubextend_configuration_refused") == 1


def test_a_changed_file_is_in_use_at_the_second_look_that_finds_it() -> None:
    server = Server(File(wants("red")))
    assert server.kept() == ["red"]
    server.file.write(wants("green"))
    assert server.look(1) == []
    assert server.kept() == ["red"]
    (replaced,) = server.look(1)
    assert replaced.scheduler_name == "default-scheduler"
    assert server.kept() == ["green"]
    assert (server.counted("taken"), server.counted("refused")) == (1, 0)


def test_a_file_that_stays_the_same_is_loaded_once_and_never_counted() -> None:
    server = Server(File(wants("red")))
    before = server.file.loads
    profiles = dict(server.verbs.profiles.by_scheduler_name)
    server.look(5)
    assert server.file.loads == before + 1
    server.file.text += "\n"
    server.look(5)
    assert server.file.loads == before + 2
    assert dict(server.verbs.profiles.by_scheduler_name) == profiles
    assert (server.counted("taken"), server.counted("refused")) == (0, 0)


def test_what_is_loaded_is_what_both_looks_found_and_not_a_change_after_them() -> None:
    class Overtaken(File):
        """A file that the next change overtakes as soon as it is read."""

        then = ""

        def read(self) -> bytes:
            data = super().read()
            self.text = self.then or self.text
            return data

    file = Overtaken(wants("red"))
    server = Server(file)
    file.write(wants("green"))
    server.look(1)
    # A file that is cut may be a whole configuration of fewer profiles.
    file.then = json.dumps(json.loads(file.text) | {"profiles": [wants("red", "other")]})
    (replaced,) = server.look(1)
    assert replaced.scheduler_name == "default-scheduler"
    assert server.kept() == ["green"]


def test_a_file_that_is_still_being_written_is_not_even_loaded() -> None:
    server = Server(File(wants("red")))
    server.look()
    before = server.file.loads
    server.file.write(wants("green"))
    whole = server.file.text
    for length in (10, 40, 0, 90):
        server.file.text = whole[:length]
        server.look(1)
    assert server.file.loads == before
    server.file.text = whole
    server.look()
    assert server.kept() == ["green"]


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        (
            {
                "profiles": [
                    {"schedulerName": "x", "plugins": {"filter": {"enabled": [{"name": "No"}]}}}
                ]
            },
            "No",
        ),
        ({"server": {"port": 9}}, "server.port"),
        ({"scoreScale": "strict10"}, "scoreScale"),
        ({"extender": {"httpTimeout": "7s"}}, "extender.httpTimeout"),
        ({"profiles": [wants("red"), telling("other")]}, "prioritize"),
    ],
    ids=["an unknown plugin", "the port", "the scale", "the timeout", "another verb"],
)
def test_a_file_that_cannot_be_taken_over_changes_nothing_and_is_named_once(
    changed: dict[str, Any], where: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = File(wants("red"))
    server = Server(file)
    file.text = json.dumps(json.loads(file.text) | changed)
    with caplog.at_level(logging.ERROR):
        server.look(6)
    (record,) = caplog.records
    assert where in record.getMessage()
    assert "the old one stays in use" in record.getMessage()
    assert server.kept() == ["red"]
    assert (server.counted("taken"), server.counted("refused")) == (0, 1)
    assert server.refuses()
    assert server.told == [record.getMessage()]
    file.write(wants("green"))
    server.look()
    assert server.kept() == ["green"]
    assert not server.refuses()


def test_the_first_queue_needs_a_restart() -> None:
    kind = {"apiVersion": "kubextend.dev/v1alpha1", "kind": "ExtenderConfiguration"}
    profile = wants("red")
    queue_sort = {"queueSort": {"enabled": [{"name": "PrioritySort"}]}}
    queued = profile | {"plugins": profile["plugins"] | queue_sort}
    old, new = (
        config.parse(kind | {"cluster": {}, "profiles": [each]}, known=known_plugins({}))
        for each in (profile, queued)
    )
    assert "scheduling queue" in " ".join(map(str, why_restart(old, new)))


def test_a_refused_file_that_becomes_the_old_one_again_is_refused_no_more() -> None:
    file = File(wants("red"))
    server = Server(file)
    good, file.text = file.text, "{"
    server.look()
    assert server.refuses()
    file.text = good
    server.look()
    assert not server.refuses()
    assert (server.counted("taken"), server.counted("refused")) == (0, 1)


def test_a_missing_file_changes_nothing_and_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(File(wants("red")))
    server.look()
    server.file.text = ""
    server.look(5)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert server.kept() == ["red"]
    server.file.write(wants("green"))
    server.look()
    assert server.kept() == ["green"]


def test_plugins_of_a_refused_file_are_stopped() -> None:
    server = Server(File(telling()))
    server.file.write(telling(failurePolicy="Ignore"), counting(-1, "other"))
    server.look()
    old, made = Tells.made
    assert (old.calls, made.calls) == (["start"], ["stop"])
    assert server.counted("refused") == 1


def test_a_profile_that_stays_the_same_keeps_its_plugins() -> None:
    server = Server(File(telling(), wants("red", "other")))
    server.file.write(telling(), wants("green", "other"))
    (replaced,) = server.look()
    assert replaced.scheduler_name == "other"
    assert len(Tells.made) == 1
    assert server.kept("other") == ["green"]


def test_a_profile_that_is_gone_answers_no_pod_any_more() -> None:
    server = Server(File(wants("red"), wants("green", "other")))
    assert server.kept("other") == ["green"]
    server.file.write(wants("red"))
    server.look()
    assert server.kept("other") == ["red", "green"]


def test_a_new_plugin_has_started_before_it_is_called() -> None:
    server = Server(File(telling()))
    server.file.write(telling(failurePolicy="Ignore"))
    server.look()
    server.kept()
    old, new = Tells.made
    assert old.calls == ["start"]
    assert new.calls == ["start", "filter"]


def test_a_plugin_that_does_not_start_leaves_the_old_one_in_use(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kubextend.reload._START_S", 0.1)
    server = Server(File(telling()))
    server.file.write(telling(failurePolicy="Ignore"))
    Tells.starts = False
    server.look()
    server.kept()
    old, new = Tells.made
    assert old.calls == ["start", "filter"]
    assert new.calls == ["start", "stop"]
    assert 'plugin "Tells" does not start: OSError: no database' in caplog.text
    assert server.counted("refused") == 1


def hang() -> None:
    HANGS.set()
    LET_GO.wait()


@pytest.mark.parametrize("hung", ["constructor", "import"])
def test_a_plugin_that_hangs_is_given_up_and_the_next_file_is_taken(
    hung: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(File(wants("red")))
    load = server.reloader.file.load
    HANGS.clear()
    LET_GO.clear()

    async def until_it_hangs(_seconds: float) -> None:
        await asyncio.to_thread(HANGS.wait)

    def loads_for_ever(_data: bytes) -> ExtenderConfiguration:
        hang()
        raise AssertionError

    if hung == "constructor":
        server.file.write(counting(FOR_EVER))
    else:
        server.file.write(wants("green"))
        monkeypatch.setattr(server.file, "load", loads_for_ever)
    monkeypatch.setattr(server.reloader, "wait_for_plugins", until_it_hangs)
    try:
        server.look()
        assert server.counted("refused") == 1
        assert server.refuses()
        does = "make" if hung == "constructor" else "import"
        assert f"to {does} the plugins took more than 30 s; the log says where" in server.told[0]
        assert "LET_GO.wait()" in caplog.text
        assert server.kept() == ["red"]
        monkeypatch.setattr(server.reloader, "wait_for_plugins", asyncio.sleep)
        monkeypatch.setattr(server.file, "load", load)
        server.file.write(wants("green", reason="another file"))
        server.look()
        assert server.kept() == ["green"]
        assert not server.refuses()
    finally:
        HANGS.set()
        LET_GO.set()


def test_a_plugin_that_is_made_after_it_was_given_up_is_stopped_and_no_other_is_made() -> None:
    server = Server(File(telling()))
    stopped: list[object] = []
    is_stopped = asyncio.Event()

    async def stop(plugin: object) -> None:
        stopped.append(plugin)
        is_stopped.set()

    async def until_it_hangs(_seconds: float) -> None:
        await asyncio.to_thread(HANGS.wait)

    async def scenario() -> None:
        for _ in range(2):
            await server.reloader.look()
        assert "took more than 30 s" in server.told[0]
        assert stopped == []
        LET_GO.set()
        async with asyncio.timeout(60):
            await is_stopped.wait()

    HANGS.clear()
    LET_GO.clear()
    server.reloader.stop, server.reloader.wait_for_plugins = stop, until_it_hangs
    server.file.write(counting(FOR_EVER), telling("other"))
    try:
        asyncio.run(scenario())
    finally:
        HANGS.set()
        LET_GO.set()
    (plugin,) = stopped
    assert isinstance(plugin, Counts)
    assert len(Tells.made) == 1


def test_a_plugin_that_exits_leaves_the_old_one_in_use() -> None:
    server = Server(File(wants("red")))
    server.file.write(counting(EXITS))
    server.look()
    assert server.counted("refused") == 1
    assert 'plugin "Counts" cannot be made: SystemExit: this plugin is a script' in server.told[0]
    assert server.kept() == ["red"]


class Counts:
    """A plugin with a metric of its own and, if the arguments say so, no way to be made."""

    name = "Counts"

    class Args(BaseModel):
        """The arguments, by which two configurations differ."""

        number: int = 0

    def __init__(self, args: Args, handle: Handle) -> None:
        gauge = Gauge("my_number", "The number of the arguments.", registry=handle.metrics)
        gauge.set(args.number)
        if args.number < 0:
            message = "less than nothing"
            raise ValueError(message)
        if args.number == EXITS:
            sys.exit("this plugin is a script")
        if args.number == FOR_EVER:
            hang()

    def filter(self, _state: CycleState, _pod: core.Pod, _node: core.NodeInfo) -> None: ...


def counting(number: int, name: str = "default-scheduler") -> dict[str, Any]:
    return {
        "schedulerName": name,
        "plugins": {"filter": {"enabled": [{"name": "Counts"}]}},
        "pluginConfig": [{"name": "Counts", "args": {"number": number}}],
    }


def test_the_metrics_of_a_plugin_are_those_of_the_instance_in_use() -> None:
    server = Server(File(counting(1)))

    def shown() -> list[str]:
        text = server.metrics.render()[0].decode()
        return [line for line in text.splitlines() if line.startswith("my_number")]

    labels = '{plugin="Counts",profile="default-scheduler"}'
    assert shown() == [f"my_number{labels} 1.0"]
    server.file.write(counting(-1))
    server.look()
    assert shown() == [f"my_number{labels} 1.0"]
    server.file.write(counting(2))
    server.look()
    assert shown() == [f"my_number{labels} 2.0"]


def test_an_attempt_that_the_old_profile_began_gets_a_new_state_from_the_new_one() -> None:
    server = Server(File(telling()))
    server.kept()
    server.scored()
    server.kept()
    server.file.write(telling(failurePolicy="Ignore"))
    server.look()
    server.scored()
    old, new = Tells.made
    assert old.states[0] is old.states[1]
    assert new.states[0] not in old.states


class Woken:
    def __init__(self) -> None:
        self.names: list[str] = []

    def activate(self, pods: Any) -> None:
        self.names += [pod.name for pod in pods]


class Binder:
    def bind(self, *_: object, **__: object) -> None:
        raise AssertionError


HOLDING = ("filter", "reserve", "permit")
FILTER = {
    "Pod": {"metadata": {"name": "p", "namespace": "ml", "uid": "u"}},
    "Nodes": {"items": NODES},
}
BIND = {"PodName": "p", "PodNamespace": "ml", "PodUID": "u", "Node": "red"}


class Holds:
    """Reserves for each pod, and holds the pod until a test lets it go."""

    name = "Holds"

    class Args(BaseModel):
        """The arguments, by which two configurations differ."""

        number: int = 0

    def __init__(self, args: Args) -> None:
        self.number = args.number
        self.calls: list[str] = []

    def filter(self, _state: CycleState, _pod: core.Pod, _node: core.NodeInfo) -> None: ...

    def reserve(self, _state: CycleState, _pod: core.Pod, _node: str) -> None:
        self.calls.append("reserve")

    def unreserve(self, _state: CycleState, _pod: core.Pod, _node: str) -> None:
        self.calls.append("unreserve")

    def permit(self, _state: CycleState, _pod: core.Pod, _node: str) -> tuple[Status, float]:
        self.calls.append("permit")
        return Status.wait(), 600.0


def holding(number: int) -> ExtenderConfiguration:
    """Return the configuration of a profile whose plugin Holds has this number."""
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {point: {"enabled": [{"name": "Holds"}]} for point in HOLDING},
        "pluginConfig": [{"name": "Holds", "args": {"number": number}}],
    }
    kind = {"apiVersion": "kubextend.dev/v1alpha1", "kind": "ExtenderConfiguration"}
    known = known_plugins({"Holds": Holds})
    return config.parse(kind | {"cluster": {}, "profiles": [profile]}, known=known)


class Numbered:
    """A file that has changed to the number 1."""

    def read(self) -> bytes:
        return b"1"

    def load(self, data: bytes) -> ExtenderConfiguration:
        return holding(int(data))


def test_a_pod_that_permit_holds_ends_with_the_plugin_that_holds_it() -> None:
    stopped: list[object] = []
    told: list[str] = []

    async def scenario() -> None:
        held, replaced, never = (asyncio.Event() for _ in range(3))
        looks = iter(range(2))

        async def sleep(_: float) -> None:
            if next(looks, None) is None:
                replaced.set()
                await never.wait()

        verbs = app.build_verbs(holding(0), ClusterPorts(binder=Binder()))
        verbs.waiting_pods.tell(lambda _: held.set())
        (old,) = verbs.profiles.plugins
        assert isinstance(old, Holds)

        async def stop(plugin: object) -> None:
            stopped.append(plugin)

        def make(new: ExtenderConfiguration, *_: object) -> Profile:
            return app.build_verbs(new).profiles.by_scheduler_name["default-scheduler"]

        reloader = Reloader(
            holding(0), Numbered(), verbs, make, stop, Metrics(), told.append, sleep
        )
        verbs.filter(json.dumps(FILTER).encode())
        binding = asyncio.create_task(verbs.bind(json.dumps(BIND).encode()))
        await held.wait()
        watching = asyncio.create_task(reloader.watch())
        await replaced.wait()
        (new,) = verbs.profiles.plugins
        assert isinstance(new, Holds)
        assert (old.number, new.number) == (0, 1)
        (retired,) = reloader.retired
        assert verbs.bind.uses(retired)
        (waiting,) = verbs.waiting_pods
        waiting.send_back("the test is over")
        assert "the test is over" in json.loads(await binding)["Error"]
        assert old.calls == ["reserve", "permit", "unreserve"]
        assert new.calls == []
        assert not verbs.bind.uses(retired)
        watching.cancel()
        await asyncio.wait([watching])

    asyncio.run(scenario())
    assert stopped == []


def test_a_replaced_plugin_is_stopped_once_no_pod_is_bound_with_it() -> None:
    async def scenario() -> None:
        stopped, told = asyncio.Event(), list[str]()
        busy, waits = [True, True, False], []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)
            await asyncio.sleep(0)

        verbs = app.build_verbs(holding(0), ClusterPorts(binder=Binder()))
        verbs.bind.uses = lambda _: busy.pop(0)  # type: ignore[method-assign]
        (old,) = verbs.profiles.plugins

        async def stop(plugin: object) -> None:
            assert plugin is old
            assert not busy
            stopped.set()

        def make(new: ExtenderConfiguration, *_: object) -> Profile:
            return app.build_verbs(new).profiles.by_scheduler_name["default-scheduler"]

        reloader = Reloader(
            holding(0), Numbered(), verbs, make, stop, Metrics(), told.append, sleep
        )
        watching = asyncio.create_task(reloader.watch())
        await stopped.wait()
        assert reloader.retired == []
        # Requests of other verbs have ended by then.
        assert max(waits) >= 2 * reloader.config.extender.http_timeout.seconds
        watching.cancel()
        await asyncio.wait([watching])

    asyncio.run(scenario())


def test_no_plugin_is_stopped_while_one_of_the_replaced_profiles_binds_a_pod() -> None:
    server = Server(File(telling(), telling("other")))
    idle, busy = profiles = [*server.verbs.profiles.by_scheduler_name.values()]
    binds = [True, True, False]
    stopped: list[object] = []

    async def sleep(_: float) -> None:
        assert stopped == []

    async def stop(plugin: object) -> None:
        assert not binds
        stopped.append(plugin)

    server.verbs.bind.uses = lambda each: each is busy and binds.pop(0)  # type: ignore[method-assign]
    server.reloader.sleep, server.reloader.stop = sleep, stop
    asyncio.run(server.reloader._retire(profiles))
    assert stopped == [*idle.plugins, *busy.plugins]


def test_pods_that_were_rejected_are_tried_again() -> None:
    woken = Woken()
    verbs = app.build_verbs(loaded(File(wants("red"))), ClusterPorts(activator=woken))
    metadata = {"name": "p", "namespace": "ml", "uid": "u"}
    body = {"Pod": {"metadata": metadata}, "Nodes": {"items": NODES[1:]}}
    assert json.loads(verbs.filter(json.dumps(body).encode()))["Nodes"]["items"] == []
    assert woken.names == []
    second = app.build_verbs(loaded(File(wants("green")))).profiles
    verbs.replace_profiles(second.by_scheduler_name.values())
    assert woken.names == ["p"]


def test_what_needs_a_restart_is_listed_with_its_path() -> None:
    old = loaded(File(wants("red")))
    new = loaded(File(wants("red"), server={"port": 9, "path": "/x"}, queue={"window": 3}))
    assert [issue.path for issue in why_restart(old, new)] == [
        "server.port",
        "server.path",
        "queue.window",
    ]
    assert why_restart(old, loaded(File(wants("green")))) == []


@pytest.mark.parametrize(
    ("plugin", "why"),
    [
        ("Claims", "a plugin of a changed profile has informers"),
        ("Details", "the plugins need other parts of pods and nodes"),
    ],
)
def test_a_plugin_for_which_kubextend_watches_more_comes_and_goes_with_a_restart(
    plugin: str, why: str
) -> None:
    enabled = {"plugins": {"filter": {"enabled": [{"name": plugin}]}}}
    with_plugin, without = (loaded(File(each, cluster={})) for each in (enabled, wants("red")))
    for old, new in ((with_plugin, without), (without, with_plugin)):
        (issue,) = why_restart(old, new)
        assert issue.path == "profiles"
        assert issue.message.startswith(why)


def test_requests_beside_100_changes_of_the_file_are_answered_by_one_policy_each() -> None:
    server = Server(File(wants("red")))
    asked, changing = [0, 0], threading.Event()
    answers: set[tuple[str, ...]] = set()

    def ask(thread: int) -> None:
        while asked[thread] < 5_000 or not changing.is_set():
            answers.add(tuple(server.kept(uid=f"{thread}-{asked[thread] % 100}")))
            asked[thread] += 1

    threads = [threading.Thread(target=ask, args=(thread,)) for thread in range(2)]
    for thread in threads:
        thread.start()
    whole = server.file.text
    for change in range(100):
        colour = "green" if change % 2 else "red"
        server.file.write(wants(colour, reason=f"reason {change}"))
        whole = server.file.text
        server.file.text = whole[: change % len(whole)]
        server.look(1)
        server.file.text = whole if change % 3 else whole.replace("LabelMatch", "LabelMach")
        server.look()
    changing.set()
    for thread in threads:
        thread.join()
    assert min(asked) >= 5_000
    assert answers == {("red",), ("green",)}
    # Every third file names a plugin that nobody knows.
    assert (server.counted("taken"), server.counted("refused")) == (66, 34)
