"""Two groups from a number: ``age>=65`` and the rest."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from fairpca.arrays import AnyArray, FloatArray, IntArray

_CUT = re.compile(
    r"^(?P<column>.+?)\s*(?P<sign>>=|<=|>|<)\s*(?P<value>[-+]?[\d.]+(?:e[-+]?\d+)?)$"
)
_OPPOSITE = {">=": "<", "<=": ">", ">": "<=", "<": ">="}
_COMPARE = {">=": np.greater_equal, "<=": np.less_equal, ">": np.greater, "<": np.less}


@dataclass(frozen=True)
class Cut:
    """A column of numbers cut in two.

    Attributes
    ----------
    column : str
    sign : {">=", "<=", ">", "<"}
    value : str
        As it was written.
    """

    column: str
    sign: str
    value: str

    @classmethod
    def parse(cls, entry: str) -> Cut | None:
        """Read a cut such as ``age>=65``; None if it is no cut."""
        found = _CUT.match(entry)
        if found is None:
            return None
        try:
            float(found["value"])
        except ValueError:
            return None
        return cls(found["column"], found["sign"], found["value"])

    @property
    def labels(self) -> tuple[str, str]:
        """Names of the two sides."""
        return (
            f"{self.column} {self.sign} {self.value}",
            f"{self.column} {_OPPOSITE[self.sign]} {self.value}",
        )

    def codes(self, numbers: FloatArray) -> IntArray:
        """Return 0 on the side of the sign, 1 on the other, -1 where the number is missing."""
        codes = np.where(_COMPARE[self.sign](numbers, float(self.value)), 0, 1)
        return np.where(np.isnan(numbers), -1, codes)

    def apply(self, numbers: FloatArray) -> AnyArray:
        """Return the label of every number, None where it is missing."""
        return np.array([*self.labels, None], dtype=object)[self.codes(numbers)]
