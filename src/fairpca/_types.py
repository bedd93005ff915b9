"""What users pass, as types: rows or their moments, labels, weights, projections and seeds."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

if TYPE_CHECKING:
    import pandas

    from fairpca.moments import GroupMoments, Groups


class Shaped(Protocol):
    """Table or column of any library: frame, sparse matrix, tensor, Dask array, LinearOperator."""

    @property
    def shape(self) -> tuple[object, ...]: ...


Frame: TypeAlias = "pandas.DataFrame"
Rows: TypeAlias = ArrayLike | Shaped
Data: TypeAlias = "Rows | GroupMoments"
Labels: TypeAlias = "ArrayLike | Shaped | Sequence[Hashable] | Mapping[str, object] | Groups"
Weights: TypeAlias = ArrayLike | None
Batch: TypeAlias = "tuple[Rows, Labels | None] | tuple[Rows, Labels | None, Weights]"
Model: TypeAlias = BaseEstimator
Models: TypeAlias = Model | Sequence[Model] | Mapping[str, Model]
Reducer: TypeAlias = Model | Rows
Seed: TypeAlias = int | np.random.RandomState | None
