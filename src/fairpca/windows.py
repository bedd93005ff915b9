"""Taking rows out of moments again, for windows that move along a stream."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from fairpca.moments import GroupMoments


def check_alike(one: GroupMoments, other: GroupMoments, what: str) -> None:
    """Raise ValueError unless both are moments of the same columns, grouped by the same ones."""
    if other.n_features != one.n_features:
        raise ValueError(
            f"moments of {one.n_features} and of {other.n_features} features cannot be "
            f"{what}; both sides must have the same columns."
        )
    if other.names != one.names:
        raise ValueError(
            f"moments grouped by {one.names} and by {other.names} cannot be {what}; group "
            "both sides by the same columns."
        )


def subtract(whole: GroupMoments, part: GroupMoments) -> GroupMoments:
    """Return the moments of the rows of `whole` that are not in `part`."""
    check_alike(whole, part, "subtracted")
    unknown = [label for label in part.labels if label not in whole.labels]
    if unknown:
        raise ValueError(
            f"group(s) {', '.join(map(repr, unknown))} are not in the moments to subtract from; "
            "subtract only rows that were counted."
        )
    part = part._spread(whole.labels)
    count = whole.count - part.count
    weight = np.where(count > 0, np.maximum(whole.weight - part.weight, 0.0), 0.0)
    slack = 1e-9 * whole.weight
    too_much = (count < 0) | (np.abs(whole.weight - part.weight - weight) > slack)
    share = np.divide(part.weight, weight, out=np.zeros_like(weight), where=weight > 0)
    shift = (whole.mean - part.mean) * share[:, None]
    mean = np.where(weight[:, None] > 0, whole.mean + shift, 0.0)
    apart = (mean - part.mean) * np.sqrt(
        np.divide(weight * part.weight, whole.weight, out=np.zeros_like(weight), where=weight > 0)
    )[:, None]
    scatter = whole.scatter - part.scatter
    scatter -= apart[:, :, None] * apart[:, None, :]
    diagonal = np.einsum("kii->ki", scatter)
    before = np.einsum("kii->ki", whole.scatter) + whole.weight[:, None] * whole.mean**2
    too_much |= np.any(diagonal < -1e-9 * before, axis=1)
    # One row has no spread, and where none is left what went must have been everything.
    few = (count <= 1)[:, None]
    too_much |= np.any(few & (diagonal > 1e-9 * before), axis=1)
    moved = whole.weight[:, None] * (whole.mean - part.mean) ** 2
    too_much |= np.any((count == 0)[:, None] & (moved > 1e-9 * before), axis=1)
    scatter[count <= 1] = 0.0
    if too_much.any():
        labels = [whole.labels[i] for i in np.flatnonzero(too_much)]
        raise ValueError(
            f"the rows to subtract from group(s) {', '.join(map(repr, labels))} are not among "
            "those counted: more rows, weight or variance would go than there is. Subtract only "
            "moments that were merged in before, decayed as often."
        )
    # What is left of a column that is now constant is the rounding of what went.
    dust = diagonal <= 64 * np.finfo(float).eps * before
    scatter[dust[:, :, None] | dust[:, None, :]] = 0.0
    bound = np.sqrt(np.maximum(np.einsum("kii->ki", scatter), 0.0))
    limit = bound[:, :, None] * bound[:, None, :]
    np.clip(scatter, -limit, limit, out=scatter)
    left = replace(whole, count=count, weight=weight, mean=mean, scatter=scatter)
    return left.select(np.flatnonzero(count > 0).tolist())
