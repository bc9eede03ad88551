"""The program that ends leads names what goes wrong in its threads."""

from typing import Any

from tests.e2e.leader_changes import KILLED, Changes


class Plane:
    api = None


class Stuck:
    """Replicas whose leader cannot be changed."""

    def change(self, kind: str) -> list[str]:
        message = f"{kind} is not over within 300 s"
        raise TimeoutError(message)

    def is_steady(self) -> bool:
        return True


def test_a_change_that_raises_is_a_fault_of_the_run() -> None:
    plane: Any = Plane()
    changes = Changes(plane, Stuck(), 1)
    changes._change(KILLED)
    (fault,) = changes.report.faults
    assert fault == f"{KILLED}: TimeoutError: {KILLED} is not over within 300 s"
