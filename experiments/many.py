"""Three and more groups, which the paper leaves open: values, certificates and who binds."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

import fairpca
from experiments.tables import FloatArray
from fairpca import GroupMoments
from fairpca.datasets import DataUnavailableError, fetch_credit_default, fetch_lfw_faces


@dataclass(frozen=True)
class Grouping:
    """A table cut into three or more groups.

    Attributes
    ----------
    key, title : str
    ranks : tuple of int
        Ranks that are solved.
    show_r : int
        The rank whose groups are drawn one by one.
    count : callable
        Returns the moments of the groups.
    partition : tuple of int, optional
        Groups that together are all rows, each once, where not all of them are.
    """

    key: str
    title: str
    ranks: tuple[int, ...]
    show_r: int
    count: functools.partial[GroupMoments]
    partition: tuple[int, ...] | None = None

    @functools.cached_property
    def moments(self) -> GroupMoments:
        """Moments of the groups."""
        return self.count()

    @functools.cached_property
    def pooled_vectors(self) -> FloatArray:
        """Eigenvectors of all rows together, largest first: ordinary PCA of every rank."""
        whole = self.moments.pooled(list(self.partition) if self.partition else None)
        return np.linalg.eigh(whole.scatter[0])[1][:, ::-1]

    @functools.cached_property
    def own(self) -> FloatArray:
        """Variance that each group's own PCA keeps, for every rank."""
        return np.cumsum(np.linalg.eigvalsh(self.moments.covariances)[:, ::-1], axis=1)

    def at(self, r: int) -> dict[str, Any]:
        """Solve one rank."""
        covariances = self.moments.covariances
        solution = fairpca.solve(covariances, r)
        basis = self.pooled_vectors[:, :r]
        pca = self.own[:, r - 1] - np.einsum("nr,knr->k", basis, covariances @ basis)
        return {
            "r": r,
            "groups": [str(label) for label in self.moments.labels],
            "counts": self.moments.count.tolist(),
            "pca_losses": np.maximum(pca, 0).tolist(),
            "losses": solution.losses.tolist(),
            "weights": solution.weights.tolist(),
            "lower_bound": solution.certificate.lower_bound,
            "value": solution.certificate.value,
            "certified_gap": solution.certificate.gap,
            "optimal": bool(solution.certificate.optimal),
            "decompositions": solution.n_eigen,
            "stop_reason": solution.stop_reason,
        }

    def forget(self) -> None:
        """Let go of the large arrays."""
        for name in ("moments", "pooled_vectors", "own"):
            self.__dict__.pop(name, None)


def groupings(*, quick: bool, download: bool) -> list[Grouping]:
    """Return the groupings of the tables at hand."""
    found: list[Grouping] = []
    every = tuple(range(1, 21))
    for key, title, columns in (
        ("DCC education", "Credit: education, 3 groups", ("education",)),
        ("DCC education x sex", "Credit: education x sex, 8 groups", ("education", "sex")),
    ):
        count = functools.partial(_credit, columns, download)
        found.append(Grouping(key, title, every, 5, count))
    if not quick:
        ranks = (1, 2, 5, 10, 20, 50, 100)
        for key, title, columns in (
            ("LFW sex x black", "Faces: sex x black, 4 groups", ("sex", "black")),
            ("LFW overlapping", "Faces: 5 overlapping groups", ()),
        ):
            count = functools.partial(_faces, columns, download)
            found.append(Grouping(key, title, ranks, 50, count, None if columns else (0, 1)))
    return [grouping for grouping in found if _at_hand(grouping, download)]


def _at_hand(grouping: Grouping, download: bool) -> bool:
    fetch = fetch_credit_default if grouping.key.startswith("DCC") else fetch_lfw_faces
    try:
        fetch(download_if_missing=download)
    except DataUnavailableError:
        return False
    return True


def _credit(columns: tuple[str, ...], download: bool) -> GroupMoments:
    bunch = fetch_credit_default(
        sensitive=list(columns), as_frame=True, download_if_missing=download
    )
    rows = bunch.data.to_numpy()
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    labels = bunch.sensitive_features
    if columns == ("education",):
        # Three groups, the case the paper's closing remark is about.
        labels = labels.where(labels.isin(["graduate school", "university"]), "other")
    return GroupMoments.from_array(rows, labels)


def _faces(columns: tuple[str, ...], download: bool) -> GroupMoments:
    names = list(columns) or ["sex", "white", "black", "asian"]
    bunch = fetch_lfw_faces(sensitive=names, download_if_missing=download)
    cells = GroupMoments.from_array(bunch.data, bunch.sensitive_features)
    if columns:
        return cells
    # Overlapping groups are sums of the cells of all four attributes; "not white" and so on
    # are no groups anybody belongs to, and are left out.
    wanted = [(0, "female"), (0, "male"), (1, "white"), (2, "black"), (3, "asian")]
    parts = [
        cells.pooled([i for i, cell in enumerate(cells.labels) if cell[j] == level], label=level)
        for j, level in wanted
    ]
    return GroupMoments(
        np.concatenate([part.count for part in parts]),
        np.concatenate([part.weight for part in parts]),
        np.concatenate([part.mean for part in parts]),
        np.concatenate([part.scatter for part in parts]),
        np.zeros(cells.n_features),
        tuple(level for _, level in wanted),
        ("group",),
    )
