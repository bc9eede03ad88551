"""What each version of kube-scheduler reads, for a file that is written for one version."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, Self

from pydantic import JsonValue

from kubextend.config.issues import Findings

__all__ = [
    "BETA_API_VERSIONS",
    "NEWEST",
    "SCHEDULER_API_VERSIONS",
    "KubeVersion",
    "refuse_unread",
]

_GROUP: Final = "kubescheduler.config.k8s.io"
# The releases of kube-scheduler that read each beta version of a KubeSchedulerConfiguration;
# source: KEP-785, Implementation History.
BETA_API_VERSIONS: Final = {
    f"{_GROUP}/v1beta3": "1.23 to 1.28",
    f"{_GROUP}/v1beta2": "1.22 to 1.27",
    f"{_GROUP}/v1beta1": "1.19 to 1.22",
}
SCHEDULER_API_VERSIONS: Final = (f"{_GROUP}/v1", *BETA_API_VERSIONS)
_FORM: Final = re.compile(r"v?(\d{1,3})\.(\d{1,3})(?:\.\d.*)?")
# The first version of each field that came later than the others, by the object that has the field.
# Source: kube-scheduler v0.22 to v0.37 config/v1/types.go, and config/v1beta3/types.go up to v0.28
_SINCE: Final = {
    "": {"delayCacheUntilActive": "1.28"},
    "profiles": {"percentageOfNodesToScore": "1.26"},
    "plugins": {
        "multiPoint": "1.23",
        "preEnqueue": "1.26",
        "placementGenerate": "1.36",
        "placementScore": "1.36",
        "podGroupPostFilter": "1.37",
    },
}


class KubeVersion(NamedTuple):
    """A version of kube-scheduler, such as 1.34; the patch level says nothing here.

    Attributes:
        major: the first number.
        minor: the second number.
    """

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``1.34``, ``v1.34`` or ``1.34.2``.

        Raises: ValueError: the text is no such version, or kubextend does not know the version.
        """
        found = _FORM.fullmatch(text)
        if found is None:
            message = f"{text!r} is no version of kube-scheduler such as {NEWEST}"
            raise ValueError(message)
        version = cls(int(found[1]), int(found[2]))
        if not OLDEST <= version <= _NEWEST_READ:
            message = (
                f"kubextend knows kube-scheduler {OLDEST} to {_NEWEST_READ}, and not {version}"
            )
            raise ValueError(message)
        return version

    @property
    def reads_policy(self) -> bool:
        """Whether this version reads a Policy file: true before 1.23."""
        return self < (1, 23)

    @property
    def note(self) -> str:
        """What people should know of kubextend with this version; "" if there is nothing."""
        if self <= NEWEST:
            return ""
        return (
            f"kubextend is tested with kube-scheduler up to {NEWEST}; of {self} it is known that "
            "preempt may be asked to choose victims, which kubextend does not do: it offers no "
            "candidate without victims"
        )

    @property
    def has_mutating_policies(self) -> bool:
        """Whether kube-apiserver serves MutatingAdmissionPolicy in v1, and not a beta of it."""
        return self >= (1, 36)

    @property
    def api_version(self) -> str:
        """The newest apiVersion of a KubeSchedulerConfiguration that this version reads."""
        return next(each for each in SCHEDULER_API_VERSIONS if self.reads(each))

    def reads(self, api_version: str) -> bool:
        """Return whether this version reads a KubeSchedulerConfiguration of an apiVersion."""
        releases = BETA_API_VERSIONS.get(api_version, f"1.25 to {_NEWEST_READ}").split(" to ")
        first, last = (KubeVersion(*map(int, each.split("."))) for each in releases)
        return first <= self <= last

    def __str__(self) -> str:
        """Return the version in the form ``1.34``."""
        return f"{self.major}.{self.minor}"


OLDEST: Final = KubeVersion(1, 17)
# The newest version of the e2e tests.
NEWEST: Final = KubeVersion(1, 37)
# Read at v1.38.0-beta.0.
_NEWEST_READ: Final = KubeVersion(1, 38)


def refuse_unread(tree: Mapping[str, JsonValue], version: KubeVersion) -> None:
    """Check that a version of kube-scheduler knows every field of a KubeSchedulerConfiguration.

    Raises: ConfigError: kube-scheduler would not start with the file.
    """
    findings = Findings()
    api_version = tree.get("apiVersion")
    if not version.reads(str(api_version)):
        message = f"kube-scheduler {version} does not read it and does not start"
        hint = f"apiVersion: {version.api_version}"
        findings.complain("apiVersion", message, api_version, hint)
    for at, since in _late_fields("", tree, ""):
        if version < KubeVersion.parse(since):
            message = f"kube-scheduler {version} does not know this field and does not start"
            field = at.rpartition(".")[2]
            findings.complain(at, message, None, f"{since} and later know it: leave {field} out")
    findings.refuse_any({})


def _late_fields(at: str, found: object, kind: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each field that not every version knows, and its first version.

    Args:
        at: the path of an object, with a dot at its end.
        found: the object.
        kind: its key in ``_SINCE``.
    """
    if not isinstance(found, Mapping):
        return
    yield from ((at + field, since) for field, since in _SINCE[kind].items() if field in found)
    for field in ("profiles", "plugins"):
        below = found.get(field)
        for index, each in enumerate(below if isinstance(below, list) else ()):
            yield from _late_fields(f"{at}{field}[{index}].", each, field)
        yield from _late_fields(f"{at}{field}.", below, field)
