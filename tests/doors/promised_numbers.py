"""The times of the code that docs/failures.md promises."""

from kubextend.config import load
from kubextend.plugins import IN_TREE
from kubextend.profile import binding_cycle, breaker
from kubextend.verbs import answer_in_time, unplaced_pods


def sentences_about_failures() -> list[str]:
    """Return the sentences of docs/failures.md that the numbers of the code make."""
    hang = answer_in_time._SHARE
    extender = load(None, known=IN_TREE).extender
    timeout = str(extender.http_timeout).replace("s", " s")
    hold_s = unplaced_pods.HOLD_S
    sentences = [
        f"After {hang * 100:g} % of the timeout, kubextend answers",
        f"while it is open, {breaker.OPEN_S:g} s",
        f"kubextend does so for {hold_s:g} s",
        f"`extender.httpTimeout`, by default {timeout};",
        {2: "If two abandoned threads of one plugin"}[breaker.MOST_STUCK_THREADS],
    ]
    for share, most_s in (binding_cycle._AFTER_PLUGINS, binding_cycle._AFTER_CLEANUP):
        sentences += [f"before the last {share * 100:g} %", f"last {most_s:g} s if that is less"]
    return sentences
