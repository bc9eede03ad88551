"""``start`` of plugins is called until it succeeds."""

from dataclasses import dataclass, field

from kubextend.profile import PluginStarts


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Starts:
    """Raises as often as it is told to."""

    failures: int = 0
    name: str = "Starts"
    calls: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.calls.append("start")
        if self.failures:
            self.failures -= 1
            raise OSError

    def stop(self) -> None:
        self.calls.append("stop")
        raise OSError


class Plain:
    name = "Plain"


def test_a_plugin_has_started_once_its_start_has_come_back() -> None:
    plugin = Starts()
    starts = PluginStarts([plugin, Plain()])
    assert starts.names() == {"Starts"}
    starts.try_due()
    starts.try_due()
    assert starts.names() == frozenset()
    assert plugin.calls == ["start"]


def test_a_start_that_fails_is_counted_and_tried_again_after_a_pause_that_doubles() -> None:
    clock, plugin, failed = Clock(), Starts(failures=9), list[str]()
    starts = PluginStarts([plugin], failed.append, clock)
    tried_at_s = []
    while starts.names():
        calls = len(plugin.calls)
        starts.try_due()
        if len(plugin.calls) > calls:
            tried_at_s.append(clock.now_s)
        clock.now_s += 1.0
    assert tried_at_s == [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]
    assert failed == ["Starts"] * 9


def test_every_plugin_is_stopped_though_another_one_fails_to() -> None:
    first, second = Starts(), Starts(failures=1)
    starts = PluginStarts([first, second])
    starts.try_due()
    starts.stop()
    assert [first.calls[-1], second.calls[-1]] == ["stop", "stop"]
    starts.try_due()
    assert second.calls == ["start", "stop"]
