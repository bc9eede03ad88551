"""Quantities in Kubernetes objects, such as ``16Gi``, as whole numbers.

Source: kubernetes v1.33 staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go
"""

import re
from typing import Final

__all__ = ["amount"]

# The numbers of digits are limited, so that no quantity takes long.
_QUANTITY: Final = re.compile(
    r"([+-]?(?:[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20}))"
    r"(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]{1,2}))?",
    re.ASCII,
)
# Each suffix with its power of 1000; the binary ones with their power of 1024.
_DECIMAL: Final = {suffix: at - 3 for at, suffix in enumerate(("n", "u", "m", "", *"kMGTPE"))}
_BINARY: Final = {f"{letter}i": power for power, letter in enumerate("KMGTPE", 1)}


def amount(resource: str, quantity: object) -> int:
    """Return a quantity as a whole number, rounded up: cpu in milli-CPUs, others in units.

    Args:
        resource: the name of the resource.
        quantity: the quantity as in the JSON of an object: a string, or a whole number.

    Raises: ValueError: the value is no quantity.
    """
    found = _QUANTITY.fullmatch(str(quantity))
    if found is None:
        message = f"{quantity!r:.80} is no quantity of {resource:.80}"
        raise ValueError(message)
    digits, suffix, exponent = found.groups()
    whole, _, fraction = digits.partition(".")
    power = int(exponent or 0) + 3 * _DECIMAL.get(suffix or "", 0) - len(fraction)
    power += 3 if resource == "cpu" else 0
    counted: int = int(whole + fraction) * 1024 ** _BINARY.get(suffix, 0)
    scale: int = 10 ** abs(power)
    return counted * scale if power >= 0 else -(-counted // scale)
