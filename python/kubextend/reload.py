"""Replaces the profiles of a running server when its configuration file changes.

Only ``profiles`` can change while kubextend runs. kubextend keeps its profiles if the new file has
a mistake, if it changes anything else, or if a plugin of it cannot be made or started.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, Protocol, TypeVar

from kubextend.config import ExtenderConfiguration, ResolvedProfile
from kubextend.errors import ConfigError, Issue, KubextendError
from kubextend.metrics import Family, Metrics, Registries, ScrapedGauge
from kubextend.profile import PluginStarts, Profile
from kubextend.profile.threads import Threads
from kubextend.verbs import Verbs
from kubextend.verbs.plugin_failure_reports import Failures

__all__ = ["ConfigurationFile", "Reloader", "why_restart"]

_T = TypeVar("_T")

_LOGGER: Final = logging.getLogger(__name__)
_LOOK_S: Final = 1.0
# For the imports of the file's plugins, and again for their constructors.
_MAKE_S: Final = 30.0
_START_S: Final = 30.0
# Verbs other than bind end long before this; of binds, the Reloader asks.
_LAST_CALL_S: Final = 60.0
_RELOADS: Final = Family(
    "kubextend_configuration_reloads",
    "Changes of the configuration file, by whether kubextend uses the new file.",
    ("result",),
)
_AT_START_ONLY: Final = "this can change only at a start of kubextend"


class ConfigurationFile(Protocol):
    """The file that the configuration comes from."""

    def read(self) -> bytes:
        """Return the bytes of the file as it is now.

        Raises: ConfigError: the file cannot be read.
        """

    def load(self, data: bytes) -> ExtenderConfiguration:
        """Check the configuration in bytes that were read from the file, and return it.

        Raises: ConfigError: the configuration cannot run.
        """


def why_restart(old: ExtenderConfiguration, new: ExtenderConfiguration) -> list[Issue]:
    """Return what a new configuration changes that kubextend can change only at its start.

    Args:
        old: the configuration in use.
        new: the configuration in the changed file.
    """
    issues = [Issue(path, _AT_START_ONLY) for path in _changed_settings(old, new)]
    if {*new.verbs} != {*old.verbs}:
        message = (
            f"the profiles need the verbs {_listed(new.verbs)} instead of {_listed(old.verbs)}; "
            "restart kubextend, and give kube-scheduler what kubextend scheduler-config writes"
        )
        issues.append(Issue("profiles", message))
    if new.needs_pods and not old.needs_pods:
        issues.append(Issue("profiles", f"no plugin has read pods so far; {_AT_START_ONLY}"))
    if new.kept_parts != old.kept_parts:
        message = f"the plugins need other parts of pods and nodes; {_AT_START_ONLY}"
        issues.append(Issue("profiles", message))
    if any(_reads_objects(*each) for each in ((old, new), (new, old))):
        message = f"a plugin of a changed profile has informers; {_AT_START_ONLY}"
        issues.append(Issue("profiles", message))
    if (old.queues or new.queues) and new.resolved != old.resolved:
        message = f"the profiles have a scheduling queue; {_AT_START_ONLY}"
        issues.append(Issue("profiles", message))
    return issues


def _changed_settings(old: ExtenderConfiguration, new: ExtenderConfiguration) -> Iterator[str]:
    """Yield the paths of the values, other than profiles, in which configurations differ."""
    before, after = (each.model_dump(mode="json", exclude={"profiles"}) for each in (old, new))
    for section in before:
        was, now = before[section], after[section]
        if isinstance(was, dict) and isinstance(now, dict):
            yield from (f"{section}.{key}" for key in was if was[key] != now[key])
        elif was != now:
            yield section


def _reads_objects(config: ExtenderConfiguration, other: ExtenderConfiguration) -> bool:
    """Return whether a profile that the other configuration does not have reads an informer."""
    changed = [profile for profile in config.resolved if profile not in other.resolved]
    return any(config.plugins[name].informers for profile in changed for name in profile.args)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "(none)"


@dataclass(slots=True)
class Reloader:
    """Looks at the configuration file each second, and takes over the profiles of a changed file.

    Attributes:
        config: the configuration in use.
        file: the file that the configuration came from.
        verbs: the verbs, whose profiles are replaced.
        make: makes a profile of a configuration, with its plugins' registries for metrics, or
            raises KubextendError.
        stop: stops a plugin.
        metrics: counts the changed files.
        tell: tells people why a changed file is refused, beside the log and the metrics.
        sleep: waits the given seconds.
        wait_for_plugins: waits the given seconds; imports and constructors that take longer hang.
        retired: replaced profiles whose plugins are not stopped yet.
        refused: whether the file was refused as it is now.
    """

    config: ExtenderConfiguration
    file: ConfigurationFile
    verbs: Verbs
    make: Callable[[ExtenderConfiguration, ResolvedProfile, Registries], Profile]
    stop: Callable[[object], Awaitable[None]]
    metrics: Metrics
    tell: Callable[[str], None]
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep
    wait_for_plugins: Callable[[float], Awaitable[Any]] = asyncio.sleep
    retired: list[Profile] = field(default_factory=list)
    refused: bool = False
    # Imports and constructors run the plugins' code, which may never return.
    _threads: Threads = field(default_factory=lambda: Threads(1, "reload"))
    # The bytes of the file at the last look, and when it was last taken over or refused.
    _last: bytes = b""
    _settled: bytes = b""
    _missing: bool = False

    METRICS: ClassVar[tuple["ScrapedGauge[Reloader]"]] = (
        ScrapedGauge(
            "kubextend_configuration_refused",
            "1 if the configuration file was refused as it is now, and an older one is in use.",
            lambda reloader: reloader.refused,
        ),
    )

    def __post_init__(self) -> None:
        self.metrics.scrape(self.METRICS, lambda: self)

    async def watch(self) -> None:
        """Look at the file each second, until the task is cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self.sleep(_LOOK_S)
                if replaced := await self.look():
                    group.create_task(self._retire(replaced))

    async def look(self) -> list[Profile]:
        """Take over the file if it changed, and say in the log and in metrics what came of it.

        A file that has just changed may be half written, so that only the second look that finds
        the same bytes counts.

        Returns: the profiles that were replaced.
        """
        data = await asyncio.to_thread(self._bytes)
        if data in (b"", self._settled) or data != self._last:
            self._last = data
            return []
        self._settled = data
        self.refused = False
        try:
            # Not what the file has by now: the next change may be half written already.
            new = await self._unhung(partial(self.file.load, data), "import")
            if (new, new.resolved) == (self.config, self.config.resolved):
                return []
            replaced = await self._take_over(new)
        except KubextendError as error:
            _LOGGER.error("the configuration file changed; the old one stays in use: %s", error)  # noqa: TRY400  the file is wrong, not kubextend
            self._refused(str(error))
        except (Exception, SystemExit) as error:
            _LOGGER.exception("the configuration file changed; the old one stays in use")
            self._refused(f"{type(error).__name__}: {error}")
        else:
            names = _listed(sorted(profile.scheduler_name for profile in replaced))
            _LOGGER.info("the changed configuration file is in use; replaced profiles: %s", names)
            self.metrics.counter(_RELOADS, "taken").inc()
            return replaced
        return []

    def _refused(self, why: str) -> None:
        self.tell(f"the configuration file changed; the old one stays in use: {why}")
        self.metrics.counter(_RELOADS, "refused").inc()
        self.refused = True

    def _bytes(self) -> bytes:
        """Return the bytes of the file; empty if it cannot be read, as while it is replaced."""
        try:
            data = self.file.read()
        except ConfigError as error:
            if not self._missing:
                _LOGGER.warning("the configuration in use stays, as its file is gone: %s", error)
            self._missing = True
            return b""
        self._missing = False
        return data

    async def _take_over(self, new: ExtenderConfiguration) -> list[Profile]:
        """Replace the profiles by those of a new configuration; return those that are replaced.

        A profile that stays the same keeps its plugins, with all that they remember.

        Raises: KubextendError: the old configuration has to stay in use.
        """
        if issues := why_restart(self.config, new):
            raise ConfigError(issues)
        running = self.verbs.profiles.by_scheduler_name
        same = [each.scheduler_name for each in new.resolved if each in self.config.resolved]
        gone = [profile for name, profile in running.items() if name not in same]
        made: list[Profile] = []
        # Of this change alone: a constructor that was given up may return during the next change.
        registries: Registries = {}
        refused = threading.Event()
        loop = asyncio.get_running_loop()

        def stop_late() -> None:
            if not loop.is_closed():
                asyncio.run_coroutine_threadsafe(self._stop_made(made), loop)

        try:
            make = partial(self._make, new, made, registries, refused)
            await self._unhung(make, "make", stop_late)
            await self._start(made)
        except BaseException:
            refused.set()
            await asyncio.shield(self._stop_made(made))
            raise
        self.verbs.replace_profiles([*(running[name] for name in same), *made])
        self.metrics.replace_plugin_registries({each.scheduler_name for each in gone}, registries)
        self.config = new
        return gone

    def _make(
        self,
        new: ExtenderConfiguration,
        made: list[Profile],
        registries: Registries,
        refused: threading.Event,
    ) -> None:
        """Make each profile of a new configuration that differs from the profile in use.

        Args:
            new: the new configuration.
            made: gets the profiles one by one, so that the caller has them if a later one fails.
            registries: gets the registries for the metrics of the profiles' plugins.
            refused: set once the configuration is refused, so that no more of it is made.

        Raises: KubextendError: a plugin cannot be made.
        """
        for resolved in new.resolved:
            if resolved not in self.config.resolved and not refused.is_set():
                made.append(self.make(new, resolved, registries))  # noqa: PERF401  kept if a later one fails

    async def _unhung(
        self,
        work: Callable[[], _T],
        what: str,
        on_return: Callable[[], object] | None = None,
    ) -> _T:
        """Run what calls the plugins' code on a thread, and return its result.

        Args:
            work: the function to run.
            what: what it does with the plugins, for the error.
            on_return: called on the abandoned thread if the function returns after all.

        Raises: KubextendError: the function has not returned after 30 s. Its thread is abandoned.
        """
        job = self._threads.submit(work)
        result = asyncio.wrap_future(job.future)
        late = asyncio.ensure_future(self.wait_for_plugins(_MAKE_S))
        try:
            await asyncio.wait([result, late], return_when=asyncio.FIRST_COMPLETED)
        finally:
            late.cancel()
        if result.done():
            return result.result()
        _LOGGER.error("the thread that was to %s the plugins is now in:\n%s", what, job.stack())
        self._threads.give_up(job, on_return)
        message = f"to {what} the plugins took more than {_MAKE_S:.0f} s; the log says where"
        raise KubextendError(message)

    async def _start(self, profiles: Sequence[Profile]) -> None:
        """Start the plugins of new profiles.

        Raises: KubextendError: a plugin has not started after 30 s.
        """
        plugins = [plugin for profile in profiles for plugin in profile.plugins]
        starts = PluginStarts(plugins, self.verbs.limits, Failures(self.metrics).note)
        try:
            async with asyncio.timeout(_START_S):
                await starts.run()
        except TimeoutError:
            raise KubextendError(starts.why_not()) from None

    async def _retire(self, profiles: Sequence[Profile]) -> None:
        """Stop the plugins of replaced profiles once no request uses them any more."""
        self.retired.extend(profiles)
        await self.sleep(_LAST_CALL_S)
        while any(self.verbs.bind.uses(profile) for profile in profiles):
            await self.sleep(_LOOK_S)
        for profile in profiles:
            self.retired.remove(profile)
            await self._stop_all(profile.plugins)

    async def _stop_made(self, made: list[Profile]) -> None:
        """Take the profiles of a refused configuration out of a list, and stop their plugins."""
        while made:
            await self._stop_all(made.pop().plugins)

    async def _stop_all(self, plugins: Sequence[object]) -> None:
        for plugin in plugins:
            await self.stop(plugin)
