"""What trials have in common: a name, options, a report, and an exit code."""

import argparse
import json
import random
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.e2e.workbench import say


class Report:
    """What a trial finds; each line is printed at once.

    Attributes:
        figures: the figures, by name.
        wrong: a sentence for each thing that must not be.
    """

    def __init__(self) -> None:
        self.figures: dict[str, float] = {}
        self.wrong: list[str] = []
        self._began_s = time.monotonic()

    def say(self, line: object) -> None:
        say(str(line))

    def judge(self, right: object, sentence: object) -> None:
        """Print a sentence; it is about what must not be unless ``right`` is true."""
        if right:
            say(str(sentence))
        else:
            self.mistake(sentence)

    def mistake(self, sentence: object) -> None:
        """Add a sentence about what must not be."""
        self.wrong.append(str(sentence))
        say(f"WRONG {sentence}")

    def tell(self, **figures: float) -> None:
        """Add figures, rounded to three places, for the last line of the report."""
        self.figures |= {name: round(float(value), 3) for name, value in figures.items()}

    def end(self, name: str) -> int:
        """Print the end, with the figures as JSON in the last line; return the exit code."""
        say(f"{name}: {len(self.wrong)} wrong, {time.monotonic() - self._began_s:.0f} s")
        say(json.dumps(self.figures))
        return 1 if self.wrong else 0


Run = Callable[[Namespace, Report], None]


@dataclass(frozen=True)
class Trial:
    """A trial.

    Attributes:
        run: runs the trial with its options, and fills the report. Its docstring begins with what
            is done to kubextend, or what is measured.
        words: what ``options.words`` may have, which is given without a name; all where none is.
        defaults: the value of each option where none is given. A ``seed`` of 0 is replaced by
            another one for each run.
    """

    run: Run
    words: tuple[str, ...]
    defaults: dict[str, Any]

    @property
    def name(self) -> str:
        return self.run.__name__.replace("_", "-")

    @property
    def sentence(self) -> str:
        return (self.run.__doc__ or "").splitlines()[0]

    def main(self, line: Sequence[str]) -> int:
        """Run the trial with the rest of a command line, and return the exit code."""
        options, report = self._options(line), Report()
        if "seed" in options:
            options.seed = options.seed or random.SystemRandom().randrange(1, 10**9)
            say(f"seed {options.seed}")
        self.run(options, report)
        return report.end(self.name)

    def _options(self, line: Sequence[str]) -> Namespace:
        program = f"python -m tests.trials {self.name}"
        parser = argparse.ArgumentParser(prog=program, description=self.sentence)
        for name, usual in self.defaults.items():
            option = f"--{name.replace('_', '-')}"
            parser.add_argument(option, type=type(usual), default=usual, help=f"{usual}")
        parser.add_argument("words", nargs="*", help=", ".join(self.words))
        options = parser.parse_args(line)
        if unknown := {*options.words} - {*self.words}:
            parser.error(f"{', '.join(sorted(unknown))}: choose from {', '.join(self.words)}")
        options.words = options.words or self.words
        return options


TRIALS: Final[dict[str, Trial]] = {}


def trial(*words: str, **defaults: Any) -> Callable[[Run], Trial]:
    """Make a trial of a function; the arguments are those of ``Trial``."""

    def made(run: Run) -> Trial:
        made = Trial(run, words, defaults)
        TRIALS[made.name] = made
        return made

    return made
