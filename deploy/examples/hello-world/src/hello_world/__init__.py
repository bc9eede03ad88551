"""HelloWorldPlugin: a score plugin with three arguments, one node at a time."""

from typing import Annotated

from pydantic import BaseModel, Field

from kubextend.core import NodeInfo, Pod
from kubextend.framework import CycleState

__all__ = ["HelloWorldArgs", "HelloWorldPlugin"]


class HelloWorldArgs(BaseModel, extra="forbid"):
    """What pluginConfig may say.

    Attributes:
        xxx: a label key of nodes.
        yyy: the value of that label on the nodes that are wanted most.
        zzz: the score of a node that has the label with another value.
    """

    xxx: Annotated[str, Field(min_length=1)] = "hello"
    yyy: str = "world"
    zzz: Annotated[int, Field(ge=0, le=100)] = 10


class HelloWorldPlugin:
    """100 for a node labelled ``xxx=yyy``, zzz for one with another value of xxx, else 0."""

    name = "HelloWorldPlugin"
    Args = HelloWorldArgs

    def __init__(self, args: HelloWorldArgs) -> None:
        self._args = args

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """0..100, the higher the better."""
        value = node.label(self._args.xxx)
        if value is None:
            return 0
        return 100 if value == self._args.yyy else self._args.zzz
