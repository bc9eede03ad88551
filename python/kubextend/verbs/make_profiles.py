"""Makes the profiles that a configuration describes, with their plugins."""

from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from kubextend.config import Configuration, ResolvedProfile
from kubextend.errors import KubextendError
from kubextend.framework.handle import Handle
from kubextend.framework.imports import in_own_code
from kubextend.framework.registered_plugin import RegisteredPlugin
from kubextend.profile import Profile, Profiles

__all__ = ["make_profiles"]


def make_profiles(config: Configuration, handle: Handle) -> Profiles:
    """Make all profiles of a loaded and checked configuration.

    Args:
        config: the configuration.
        handle: the Handle from which those of the plugins are made.

    Raises: KubextendError: a plugin cannot be made.
    """
    made = (_profile_of(config, each, handle) for each in config.profiles)
    return Profiles.of(made, config.pass_through)


def _profile_of(config: Configuration, resolved: ResolvedProfile, handle: Handle) -> Profile:
    """Make a profile, with one instance of each plugin for all its extension points.

    Args:
        config: a loaded and checked configuration.
        resolved: the profile in the configuration.
        handle: the Handle from which those of the plugins are made.

    Raises: KubextendError: a plugin cannot be made.
    """
    known = config.plugins
    handle = handle.in_profile(resolved.scheduler_name)
    # Any: the extension points were checked when the configuration was resolved.
    made: dict[str, Any] = {
        name: _made(known[name], args, resolved, handle) for name, args in resolved.args.items()
    }

    def at(point: str) -> list[Any]:
        return [made[enabled.name] for enabled in resolved.at(point)]

    weights = {enabled.name: enabled.weight for enabled in resolved.at("score")}
    return replace(
        Profile.of(resolved.scheduler_name, at, weights),
        pods=handle.pods,
        counts_pods=resolved.counts_pods,
        needs_leader=bool(resolved.state) or config.guard.resources,
        ignored=resolved.ignored,
    )


def _made(
    plugin: RegisteredPlugin, args: BaseModel | None, resolved: ResolvedProfile, handle: Handle
) -> Any:
    try:
        return plugin.make(args, handle)
    # SystemExit: the error is to name the plugin that calls sys.exit.
    except (Exception, SystemExit) as error:
        kind = "" if isinstance(error, KubextendError) else f"{type(error).__name__}: "
        what = " ".join(f"{kind}{error}".split())
        profile = f'profile "{resolved.scheduler_name}"'
        where = in_own_code(plugin.plugin_class.__module__, error)
        message = f'{profile}: plugin "{plugin.name}" cannot be made: {what}{where}'
        raise KubextendError(message) from error
