"""What trials have in common: a name, arguments with a short form, a report, and an exit code."""

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
        name: the name on the command line.
        sentence: what is done to kubextend, or what is measured.
        run: runs the trial with its options, and fills the report.
        arguments: by name, the value of each option, and the value in the short form. A ``seed``
            of 0 is replaced by another one for each run.
        words: the values of ``options.words``, which are given without a name; empty: no words.
        few: the words of the short form; empty: as ``words``.
    """

    name: str
    sentence: str
    run: Run
    arguments: dict[str, tuple[Any, Any]]
    words: tuple[str, ...] = ()
    few: tuple[str, ...] = ()

    def report(self, *line: str) -> Report:
        """Run the trial with the rest of a command line, and return the report."""
        options, report = self._options(line), Report()
        if "seed" in options:
            options.seed = options.seed or random.SystemRandom().randrange(1, 10**9)
            say(f"seed {options.seed}")
        self.run(options, report)
        return report

    def _options(self, line: Sequence[str]) -> Namespace:
        program = f"python -m tests.trials {self.name}"
        parser = argparse.ArgumentParser(prog=program, description=self.sentence)
        parser.add_argument("--short", action="store_true", help="the form for ordinary tests")
        for name, (usual, short) in self.arguments.items():
            shown = f"{usual}, or {short} in the short form"
            parser.add_argument(f"--{name.replace('_', '-')}", type=type(usual), help=shown)
        if self.words:
            parser.add_argument("words", nargs="*", help=", ".join(dict.fromkeys(self.words)))
        options = parser.parse_args(line)
        for name, values in self.arguments.items():
            if getattr(options, name) is None:
                setattr(options, name, values[options.short])
        if self.words and (unknown := {*options.words} - {*self.words}):
            parser.error(f"{', '.join(sorted(unknown))}: choose from {', '.join(self.words)}")
        if self.words and not options.words:
            options.words = (options.short and self.few) or self.words
        return options


TRIALS: Final[dict[str, Trial]] = {}


def trial(
    words: tuple[str, ...] = (),
    few: tuple[str, ...] = (),
    **arguments: Any,
) -> Callable[[Run], Trial]:
    """Make a trial of a function, whose name and docstring are those of the trial.

    Args:
        words: the words that may be given, as ``Trial`` has them.
        few: the words of the short form.
        arguments: the value of each option, or a pair of it and the value in the short form.
    """
    pairs = {k: v if isinstance(v, tuple) else (v, v) for k, v in arguments.items()}

    def made(run: Run) -> Trial:
        name, sentence = run.__name__.replace("_", "-"), (run.__doc__ or "").splitlines()[0]
        TRIALS[name] = Trial(name, sentence, run, pairs, words, few)
        return TRIALS[name]

    return made
