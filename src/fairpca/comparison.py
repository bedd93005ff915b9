"""What `fairpca.compare` returns: one row per reducer, and its forms as table, frame and text."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from fairpca.extras import require
from fairpca.labels import Label
from fairpca.metrics import Parity

_NAN = float("nan")
_TEXT_COLUMNS = {
    "name": "method",
    "optimises": "optimises",
    "rank": "rank",
    "worst_loss": "worst loss",
    "gap": "above bound",
    "total_error": "total error",
    "error_gap": "error gap",
    "mean_gap": "mean gap",
    "covariance_gap": "cov. gap",
    "mmd_squared": "MMD^2",
    "fit_seconds": "seconds",
    "accuracy": "accuracy",
    "demographic_parity_difference": "parity diff.",
    "equal_opportunity_difference": "opport. diff.",
}
_HELD_OUT = tuple(field.name for field in fields(Parity))


@dataclass(frozen=True)
class ComparisonRow:
    """One reducer.

    Attributes
    ----------
    name : str
    optimises : str
        What the reducer makes small: "loss", "variance", "total error", "mean gap" and so on.
    rank : int or None
        Place among the reducers that optimise the same; None where that is not one number.
    n_components : int
    worst_loss : float
        Largest loss of a group against its own PCA.
    bound : float
        No projection of this rank has a smaller worst loss.
    gap : float
        ``(worst_loss - bound) / worst_loss``.
    group_losses, group_errors : tuple of float
        About the groups' own means, in the order of the labels.
    least_variance : float
        Variance that the group with the least of it keeps.
    total_error : float
        Mean squared reconstruction error of all rows about the overall mean.
    error_gap : float
        Largest difference between two groups' mean squared errors about the overall mean.
    mean_gap, covariance_gap, mmd_squared : float
        How different two groups look after projection, the most different pair.
    fit_seconds : float
    accuracy, demographic_parity_difference, equal_opportunity_difference : float
        Of a linear classifier on held-out rows; NaN without y.
    message : str
        Warnings of the fit, or why it failed.
    """

    name: str
    optimises: str
    rank: int | None = None
    n_components: int = 0
    worst_loss: float = _NAN
    bound: float = _NAN
    gap: float = _NAN
    group_losses: tuple[float, ...] = ()
    group_errors: tuple[float, ...] = ()
    least_variance: float = _NAN
    total_error: float = _NAN
    error_gap: float = _NAN
    mean_gap: float = _NAN
    covariance_gap: float = _NAN
    mmd_squared: float = _NAN
    fit_seconds: float = _NAN
    accuracy: float = _NAN
    demographic_parity_difference: float = _NAN
    equal_opportunity_difference: float = _NAN
    message: str = ""

    @property
    def failed(self) -> bool:
        """Whether the reducer could not be fitted."""
        return self.n_components == 0


# The number each notion makes small. Trade-offs and common bases have no single one.
_RANKED_BY: dict[str, Callable[[ComparisonRow], float]] = {
    "loss": lambda row: row.worst_loss,
    "error": lambda row: max(row.group_errors),
    "variance": lambda row: -row.least_variance,
    "total error": lambda row: row.total_error,
    "error gap": lambda row: row.error_gap,
    "mean gap": lambda row: row.mean_gap,
    "covariance gap": lambda row: row.covariance_gap,
    "mmd": lambda row: row.mmd_squared,
}


@dataclass(frozen=True)
class Comparison:
    """The reducers side by side.

    Attributes
    ----------
    rows : tuple of ComparisonRow
    groups : tuple
        Labels, sorted.
    group_counts : tuple of int
    """

    rows: tuple[ComparisonRow, ...]
    groups: tuple[Label, ...]
    group_counts: tuple[int, ...]

    @classmethod
    def of(
        cls, rows: Iterable[ComparisonRow], groups: Iterable[Label], counts: Iterable[int]
    ) -> Comparison:
        """Rank rows and keep them."""
        return cls(_ranked(list(rows)), tuple(groups), tuple(int(count) for count in counts))

    def __getitem__(self, name: str) -> ComparisonRow:
        """Return the row of a reducer."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"{name!r}; there are {', '.join(row.name for row in self.rows)}")

    def to_records(self) -> list[dict[str, Any]]:
        """Return one flat dictionary per reducer; group columns carry the label."""
        found = []
        for row in self.rows:
            record = asdict(row)
            for title, name in (("loss", "group_losses"), ("error", "group_errors")):
                values = record.pop(name) or (_NAN,) * len(self.groups)
                for label, value in zip(self.groups, values, strict=True):
                    record[f"{title} [{label}]"] = value
            found.append(record)
        return found

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one reducer a row."""
        pandas = require("pandas", extra="app", purpose="Comparison.to_frame")
        return pandas.DataFrame(self.to_records()).set_index("name")

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values; a missing number is None."""
        rows = [{key: _plain(value) for key, value in asdict(row).items()} for row in self.rows]
        groups = [_plain(label) for label in self.groups]
        return {"groups": groups, "group_counts": list(self.group_counts), "rows": rows}

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_csv(self) -> str:
        """Return the records as CSV text; a missing number is an empty field."""
        records = self.to_records()
        text = io.StringIO()
        writer = csv.DictWriter(text, list(records[0]) if records else ["name"])
        writer.writeheader()
        for record in records:
            writer.writerow({key: "" if _missing(cell) else cell for key, cell in record.items()})
        return text.getvalue()

    def __str__(self) -> str:
        """Return a table for people; columns without a number are left out."""

        def known(name: str) -> bool:
            return any(not _missing(getattr(row, name)) for row in self.rows)

        kept = [name for name in _TEXT_COLUMNS if name not in _HELD_OUT or known(name)]
        cells = [[_TEXT_COLUMNS[name] for name in kept]]
        cells += [[_cell(getattr(row, name)) for name in kept] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(_aligned(line, widths)).rstrip() for line in cells]
        lines.insert(1, "  ".join("-" * width for width in widths))
        notes = [f"{row.name}: {row.message}" for row in self.rows if row.message]
        return "\n".join([*lines, *([""] if notes else []), *notes])


def _ranked(rows: list[ComparisonRow]) -> tuple[ComparisonRow, ...]:
    """Fill in the ranks, each among the reducers of one notion and one number of components."""
    found = []
    for row in rows:
        number = _RANKED_BY.get(row.optimises)
        if row.failed or number is None or np.isnan(number(row)):
            found.append(row)
            continue
        # Values that agree to rounding, on the scale of the whole column, share a place.
        column = [abs(number(other)) for other in rows if other.group_errors]
        slack = 1e-9 * max(column, default=0.0)
        rivals = [
            number(other)
            for other in rows
            if other.optimises == row.optimises and other.n_components == row.n_components
        ]
        better = sum(value < number(row) - slack for value in rivals)
        found.append(replace(row, rank=1 + better))
    return tuple(found)


def _missing(value: Any) -> bool:
    return value is None or bool(value != value)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _cell(value: Any) -> str:
    if _missing(value):
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1e-3 else f"{value:.4f}"
    return str(value)


def _aligned(line: list[str], widths: list[int]) -> list[str]:
    """Pad the cells of a line: words to the left, numbers to the right."""
    words, numbers = zip(line[:2], widths[:2], strict=True), zip(line[2:], widths[2:], strict=True)
    return [text.ljust(width) for text, width in words] + [
        text.rjust(width) for text, width in numbers
    ]
