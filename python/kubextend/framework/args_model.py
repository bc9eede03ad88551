"""The base of the models of bundled plugins' arguments."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

__all__ = ["ArgsModel"]


class ArgsModel(BaseModel):
    """A closed set of arguments, with names in camel case as in kube-scheduler's configuration."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=False
    )
