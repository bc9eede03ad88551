"""``kubextend serve``, which records no decisions after SIGUSR1, and records them after SIGUSR2.

A request that is recorded can so be compared with one that is not in one and the same process. Two
processes of the same server differ by several percent, as their memory happens to lie.
"""

import signal
import sys
from typing import Any

from kubextend import app, cli

_build = app.build


def _switched(*given: Any) -> app.App:
    made = _build(*given)

    def switch(number: int, _frame: object) -> None:
        made.verbs.decisions.records = number == signal.SIGUSR2

    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, switch)
    return made


if __name__ == "__main__":
    app.build = _switched
    sys.exit(cli.main())
