"""FairPCA for fields: empirical orthogonal functions of several sources, seasons or members.

The EOFs of two reanalyses put together are mostly those of the one with more years or more
variance. `FairEOF` takes DataArrays and Datasets, or a list of them, and finds patterns whose
worst-served source is served as well as possible; scores and patterns come back with their
coordinates. Names and conventions are those of xeofs (N. Rieger and S. Levang, 2024), which
centres, weights and stacks the fields: with one group the modes are those of `xeofs.single.EOF`,
up to sign.

This module is called as the library is, and imports it where it is needed: ``import xarray`` is
always the library.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn.exceptions import NotFittedError

from fairpca import __version__
from fairpca._arrays import AnyArray
from fairpca._check import check_choice, listed, require
from fairpca.estimator import FairPCA
from fairpca.moments.groups import Labels
from fairpca.solvers.solution import Certificate

if TYPE_CHECKING:
    from xarray import DataArray, Dataset

    Dims: TypeAlias = Hashable | Sequence[Hashable]
    Scores: TypeAlias = DataArray | list[DataArray]
    Fields: TypeAlias = DataArray | Dataset | list[DataArray] | list[Dataset]

__all__ = ["FairEOF"]

_require = partial(require, extra="xarray", purpose="fairpca.xarray")


@dataclass(eq=False, repr=False)
class FairEOF:
    """Empirical orthogonal functions whose worst-served group is served as well as possible.

    Parameters
    ----------
    n_modes : int, default=2
        Number of modes.
    criterion, center, shrinkage, max_harm
        As in `fairpca.FairPCA`. With ``center="group"`` every source is taken about its own mean,
        as for common EOFs of anomalies.
    standardize : bool, default=False
        Divide every cell by its standard deviation over all samples, as `xeofs.single.EOF` does.

    Attributes
    ----------
    model_ : FairPCA
        The fit in the columns of cells that have data: `group_losses_`, `certificate_` and so on.

    See Also
    --------
    fairpca.FairPCA : The estimator behind it.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from fairpca.xarray import FairEOF
    >>> rng = np.random.default_rng(0)
    >>> values = rng.normal(size=(60, 3, 4)) * [3.0, 2.0, 1.0, 1.0]
    >>> field = xr.DataArray(
    ...     values,
    ...     dims=("time", "lat", "lon"),
    ...     coords={"time": np.arange(60), "lat": [-30.0, 0.0, 30.0]},
    ... )
    >>> source = ["a"] * 45 + ["b"] * 15
    >>> eof = FairEOF(n_modes=2).fit(field, dim="time", group=source, weights="coslat")
    >>> eof.components().dims, eof.scores().dims, eof.components().sizes["lon"]
    (('mode', 'lat', 'lon'), ('mode', 'time'), 4)
    """

    n_modes: int = 2
    _: KW_ONLY
    criterion: str = "loss"
    center: str = "global"
    shrinkage: float | str | None = None
    max_harm: float | None = None
    standardize: bool = False

    def fit(
        self,
        X: Fields,
        dim: Dims = "time",
        *,
        group: DataArray | Labels | None = None,
        weights: str | DataArray | Dataset | None = None,
    ) -> FairEOF:
        """Fit the modes.

        Parameters
        ----------
        X : DataArray, Dataset, or list of them
            Of a list every entry is a group: common EOFs. All entries have the same cells; their
            samples may differ in number and time. Cells without any value are left out, and are
            NaN in the components; a cell with some values missing is refused.
        dim : str or sequence of str, default="time"
            The dimensions whose points are samples; all others are cells. Entries of a list are
            put together along the first.
        group : str, DataArray or array-like, optional
            Which group a sample belongs to: the name of a coordinate, of a dimension in `dim`
            (such as the ensemble member) or of a part of a date ("time.season"); or one label a
            sample; or, for a list, one label an entry. By default a list has the groups 0, 1, ...,
            and anything else is one group, which gives ordinary EOFs, and warns.
        weights : "coslat", DataArray or Dataset, optional
            What cells are multiplied with before anything else, on the grid of X. "coslat" is the
            root of the cosine of the latitude, so that squares count by area.

        Returns
        -------
        self
        """
        xarray, several = _require("xarray"), isinstance(X, list | tuple)
        preprocessing = _require("xeofs.preprocessing")
        dims = tuple(dim) if isinstance(dim, list | tuple) else (dim,)
        whole: Any = X
        labels: Any = group
        if several:
            names = list(range(len(X)) if group is None else labels)
            sizes = [np.prod([part.sizes[key] for key in dims], dtype=int) for part in X]
            if len(names) != len(X):
                raise ValueError(f"group={group!r} must be one label for each of {len(X)} fields.")
            labels = [name for name, m in zip(names, sizes, strict=True) for _ in range(m)]
            # Times of different sources may be the same: here they are numbers.
            parts = [part.drop_vars(dims, errors="ignore") for part in X]
            whole = xarray.concat(parts, dims[0], join="exact", coords="minimal", compat="equals")
        elif group is not None:
            labels = _labels(X, dims, group)
        coslat = isinstance(weights, str)
        if coslat:
            check_choice("weights", weights, ("coslat",))
            weights = None
        cells = preprocessing.Preprocessor(with_std=self.standardize, with_coslat=coslat)
        # Cells that the weights lack would be left out without a word.
        with xarray.set_options(arithmetic_join="exact"):
            rows = _quietly(cells.fit_transform, _numbered(whole), dims, weights)
        options = ("criterion", "center", "shrinkage", "max_harm")
        model = FairPCA(self.n_modes, **{name: getattr(self, name) for name in options})
        self.model_ = model.fit(rows.to_numpy(), sensitive_features=labels)
        self._cells, self._dims, self._features = cells, dims, rows.coords["feature"]
        self._scores = self.transform(X)
        return self

    def components(self) -> DataArray | Dataset:
        """Return the modes over the cells, NaN where there is no data; unit length, as weighted.

        Returns
        -------
        DataArray or Dataset
            As the fields of the fit, with the dimension `mode`, counted from 1, for `dim`.
        """
        found = _quietly(self._fitted._cells.inverse_transform_components, self._components)
        return found.assign_attrs(self._attrs)

    def scores(self) -> Scores:
        """Return what every sample of the fit has of every mode.

        Returns
        -------
        DataArray with the dimensions mode and `dim`, or a list of them
        """
        return self._fitted._scores

    def transform(self, X: Fields) -> Scores:
        """Project fields with the same cells; groups are not needed.

        Parameters
        ----------
        X : DataArray, Dataset, or list of them

        Returns
        -------
        DataArray with the dimensions mode and `dim`, or a list of them
        """
        if isinstance(X, list | tuple):
            return [self.transform(part) for part in X]
        dims, cells = self._fitted._dims, self._cells
        rows = _quietly(cells.transform, _numbered(X))
        values, coords = self.model_.transform(rows.to_numpy()), {"sample": rows.coords["sample"]}
        found = _require("xarray").DataArray(values, coords | self._modes, ("sample", "mode"))
        found = _quietly(cells.inverse_transform_scores_unseen, found).transpose("mode", *dims)
        along = {key: c for key, c in X.coords.items() if c.dims and set(c.dims) <= set(dims)}
        found = found.drop_vars([key for key in dims if key not in along], errors="ignore")
        return found.assign_coords(along).rename("scores").assign_attrs(self._attrs)

    def fit_transform(self, X: Fields, dim: Dims = "time", **options: Any) -> Scores:
        """Fit, then return the scores; arguments as in `fit`."""
        return self.fit(X, dim, **options).scores()

    def inverse_transform(self, scores: DataArray) -> DataArray | Dataset:
        """Return the fields that scores stand for, in the units of the fit.

        Parameters
        ----------
        scores : DataArray
            With the dimension `mode` and any others. Its coordinate says which modes they are;
            those that are not there add nothing. Without a coordinate they are all, in order.

        Returns
        -------
        DataArray or Dataset
        """
        xarray, modes = _require("xarray"), self._fitted._components
        if "mode" in scores.coords:
            modes = modes.sel(mode=scores.coords["mode"])
        found = xarray.dot(scores, modes, dim="mode")
        return _quietly(self._cells.inverse_transform_data, found).assign_attrs(self._attrs)

    def explained_variance(self) -> DataArray:
        """Return the variance of all samples along every mode."""
        return self._of_modes("explained_variance")

    def explained_variance_ratio(self) -> DataArray:
        """Return the variance along every mode as a share of that of all cells."""
        return self._of_modes("explained_variance_ratio")

    def singular_values(self) -> DataArray:
        """Return the length of the scores of every mode."""
        return self._of_modes("singular_values")

    def group_losses(self) -> DataArray:
        """Return what every group loses against EOFs of its own, as a DataArray over `group`."""
        model = self._fitted.model_
        samples = ("group", model.group_counts_)
        coords = {"group": list(map(str, model.groups_)), "samples": samples}
        of = coords, "group", "group_losses", self._attrs
        return _require("xarray").DataArray(model.group_losses_, *of)

    @property
    def certificate_(self) -> Certificate:
        """The worst group's value, and what no modes of this number go below."""
        return self._fitted.model_.certificate_  # type: ignore[no-any-return]

    @property
    def _fitted(self) -> FairEOF:
        if not hasattr(self, "model_"):
            raise NotFittedError("This FairEOF is not fitted yet; call fit with a field first.")
        return self

    @property
    def _modes(self) -> dict[str, AnyArray]:
        return {"mode": np.arange(1, self.model_.n_components_ + 1)}

    @property
    def _components(self) -> Any:
        coords, dims = {**self._modes, "feature": self._features}, ("mode", "feature")
        return _require("xarray").DataArray(self.model_.components_, coords, dims, "components")

    @property
    def _attrs(self) -> dict[str, str]:
        """What is written beside every result; only texts, which files can hold."""
        of, proof = {"criterion": self.criterion, "center": self.center}, self.model_.certificate_
        software = {"model": "FairEOF", "software": f"fairpca {__version__}"}
        return software | of | {"certificate": str(proof)}

    def _of_modes(self, name: str) -> Any:
        """Return an attribute of the model that has one number for every mode."""
        values = getattr(self._fitted.model_, f"{name}_")
        return _require("xarray").DataArray(values, self._modes, name=name, attrs=self._attrs)


def _quietly(call: Callable[..., Any], *given: Any) -> Any:
    """Call xeofs without its warnings of habits that xarray will refuse one day."""
    with warnings.catch_warnings():
        for category in (FutureWarning, PendingDeprecationWarning):
            warnings.filterwarnings("ignore", category=category)
        return call(*given)


def _numbered(X: Any) -> Any:
    """Return a field whose every dimension has a coordinate, which xeofs asks for."""
    return X.assign_coords({key: np.arange(X.sizes[key]) for key in X.dims if key not in X.coords})


def _labels(X: Any, dims: tuple[Hashable, ...], group: Any) -> AnyArray:
    """Return one label a sample; what has coordinates belongs to the samples by these."""
    if isinstance(group, str):
        try:
            group = X[group]
        except (KeyError, AttributeError):
            raise ValueError(
                f"group={group!r} is no coordinate of X; there are {listed(list(X.coords))}, and "
                "parts of dates such as 'time.season'."
            ) from None
    if not hasattr(group, "dims"):
        return np.asarray(group)
    sizes = {key: X.sizes[key] for key in dims}
    coords = {key: X.coords[key] for key in dims if key in X.coords}
    samples = _require("xarray").DataArray(np.zeros(tuple(sizes.values())), coords, dims)
    found = group.reindex_like(samples).broadcast_like(samples).transpose(*dims)
    return np.asarray(found.to_numpy().ravel())
