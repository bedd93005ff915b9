"""FairPCA for fields: empirical orthogonal functions of several sources, seasons or members.

The EOFs of two reanalyses put together are mostly those of the one with more years or more
variance. `FairEOF` takes DataArrays and Datasets, or a list of them, and finds patterns whose
worst-served source is served as well as possible; scores and patterns come back with their
coordinates. Names and conventions are those of xeofs (N. Rieger and S. Levang, 2024): with one
group the modes are those of `xeofs.single.EOF`, up to sign.

This package is called as the library is, and imports it where it is needed: ``import xarray`` is
always the library.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from fairpca import __version__
from fairpca._check import check_choice, require, warn
from fairpca._arrays import AnyArray, FloatArray, constant_columns
from fairpca.estimator import FairPCA
from fairpca.solvers.solution import Certificate

__all__ = ["FairEOF"]

# Names by which a coordinate of latitudes goes, in small letters.
_LATITUDES = ("lat", "latitude", "lats", "nav_lat")
_xarray = partial(require, "xarray", extra="xarray", purpose="fairpca.xarray")


@dataclass(eq=False, repr=False)
class FairEOF:
    """Empirical orthogonal functions whose worst-served group is served as well as possible.

    Parameters
    ----------
    n_modes : int, default=2
        Number of modes.
    criterion, center, shrinkage
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
    standardize: bool = False

    def fit(
        self,
        X: Any,
        dim: Hashable | Sequence[Hashable] = "time",
        *,
        group: Any = None,
        weights: Any = None,
    ) -> FairEOF:
        """Fit the modes.

        Parameters
        ----------
        X : DataArray, Dataset, or list of them
            Of a list every entry is a group: common EOFs. All entries have the same cells; their
            samples may differ in number and time. Cells without any value are left out, and are
            NaN in the components; a cell with some values missing is refused.
        dim : str or sequence of str, default="time"
            The dimensions whose points are samples; all others are cells.
        group : str, DataArray or array-like, optional
            Which group a sample belongs to: the name of a coordinate, of a dimension in `dim`
            (such as the ensemble member) or of a part of a date ("time.season"); or one label a
            sample; or, for a list, one label an entry. By default a list has the groups 0, 1, ...,
            and anything else is one group, which gives ordinary EOFs, and warns.
        weights : "coslat", DataArray or Dataset, optional
            What cells are multiplied with before anything else. "coslat" is the root of the cosine
            of the latitude, so that squares count by area.

        Returns
        -------
        self
        """
        parts, several = _parts(X), isinstance(X, list | tuple)
        dims = (dim,) if isinstance(dim, str) or not isinstance(dim, Sequence) else tuple(dim)
        cells = _Cells.of(parts, dims, weights)
        rows = np.concatenate([cells.rows(part) for part in parts])
        labels = _list_labels(parts, dims, group) if several else _labels(X, dims, group)
        whole = isinstance(self.n_modes, int | np.integer)
        if not whole or not 1 <= self.n_modes <= rows.shape[1]:
            raise ValueError(
                f"n_modes={self.n_modes!r} must be an integer between 1 and the number of cells "
                f"with data, {rows.shape[1]}."
            )
        if self.standardize:
            # A cell that never changes stays as it is.
            spread = rows.std(axis=0)
            spread[constant_columns(rows.mean(axis=0), spread)] = 1.0
            cells = replace(cells, weight=cells.weight / spread)
        model = FairPCA(
            self.n_modes, criterion=self.criterion, center=self.center, shrinkage=self.shrinkage
        )
        # Set last, so that a fit that fails leaves the one before.
        self.model_ = model.fit(rows * cells.weight, sensitive_features=labels)
        self._cells = cells
        self._scores = self.transform(X)
        return self

    def components(self) -> Any:
        """Return the modes over the cells, NaN where there is no data; unit length, as weighted.

        Returns
        -------
        DataArray or Dataset
            As the fields of the fit, with the dimension `mode`, counted from 1, for `dim`.
        """
        cells, modes = self._fitted._cells, self.model_.components_
        return cells.unpacked(modes, ("mode",), self._modes, "components", self._attrs)

    def scores(self) -> Any:
        """Return what every sample of the fit has of every mode.

        Returns
        -------
        DataArray with the dimensions mode and `dim`, or a list of them
        """
        return self._fitted._scores

    def transform(self, X: Any) -> Any:
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
        cells = self._fitted._cells
        (X,) = _parts(X)
        values = self.model_.transform(cells.rows(X) * cells.weight).T
        # What has no dimension at all says nothing about the samples, and is left out.
        along = {key: given for key, given in _coords_along(X, cells.dims).items() if given.dims}
        values = values.reshape(-1, *(X.sizes[name] for name in cells.dims))
        coords, dims = along | self._modes, ("mode", *cells.dims)
        return _xarray().DataArray(values, coords, dims, "scores", self._attrs)

    def fit_transform(self, X: Any, dim: Any = "time", **options: Any) -> Any:
        """Fit, then return the scores; arguments as in `fit`."""
        return self.fit(X, dim, **options).scores()

    def inverse_transform(self, scores: Any) -> Any:
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
        cells = self._fitted._cells
        if "mode" not in getattr(scores, "dims", ()):
            raise ValueError(
                f"scores is a {type(scores).__name__} without the dimension 'mode'; pass what "
                "transform or scores returns."
            )
        if "mode" in scores.coords:
            modes = self._modes["mode"]
            unknown = set(scores.coords["mode"].values.tolist()) - set(modes.tolist())
            if unknown or not scores.indexes["mode"].is_unique:
                raise ValueError(
                    f"scores has the modes {scores.coords['mode'].values.tolist()} and this model "
                    f"has 1 to {len(modes)}; pass each at most once."
                )
            scores = scores.reindex(mode=modes, fill_value=0.0)
        others = [name for name in scores.dims if name != "mode"]
        values = scores.transpose(*others, "mode").to_numpy()
        weight = np.where(cells.weight > 0, cells.weight, np.nan)
        flat = self.model_.inverse_transform(values.reshape(-1, values.shape[-1]))
        rows = (flat / weight).reshape(*values.shape[:-1], -1)
        coords = {name: scores.coords[name] for name in others if name in scores.coords}
        return cells.unpacked(rows, tuple(others), coords, "reconstructed", self._attrs)

    def explained_variance(self) -> Any:
        """Return the variance of all samples along every mode."""
        return self._of_modes("explained_variance")

    def explained_variance_ratio(self) -> Any:
        """Return the variance along every mode as a share of that of all cells."""
        return self._of_modes("explained_variance_ratio")

    def singular_values(self) -> Any:
        """Return the length of the scores of every mode."""
        return self._of_modes("singular_values")

    def group_losses(self) -> Any:
        """Return what every group loses against EOFs of its own, as a DataArray over `group`."""
        model = self._fitted.model_
        names = [str(label) for label in model.groups_]
        coords = {"group": names, "samples": ("group", model.group_counts_)}
        losses = model.group_losses_
        return _xarray().DataArray(losses, coords, "group", "group_losses", self._attrs)

    @property
    def certificate_(self) -> Certificate:
        """The worst group's value, and what no modes of this number go below."""
        found: Certificate = self._fitted.model_.certificate_
        return found

    @property
    def _fitted(self) -> FairEOF:
        if not hasattr(self, "model_"):
            raise NotFittedError("This FairEOF is not fitted yet; call fit with a field first.")
        return self

    @property
    def _modes(self) -> dict[str, AnyArray]:
        return {"mode": np.arange(1, len(self.model_.components_) + 1)}

    @property
    def _attrs(self) -> dict[str, Any]:
        """What is written beside every result; only texts and numbers, which files can hold."""
        return {
            "model": "FairEOF",
            "software": f"fairpca {__version__}",
            "criterion": self.criterion,
            "center": self.center,
            "certificate": str(self.model_.certificate_),
        }

    def _of_modes(self, name: str) -> Any:
        """Return an attribute of the model that has one number for every mode."""
        values = getattr(self._fitted.model_, f"{name}_")
        return _xarray().DataArray(values, coords=self._modes, name=name, attrs=self._attrs)


@dataclass(frozen=True)
class _Cells:
    """Which columns the cells of a field are: those with data, one variable after the other.

    `dims` are the dimensions of samples. `fields` are arrays over the other dimensions, one for
    every variable, with their coordinates; what they hold does not matter. `known` says of every
    cell whether it has data, `weight` what those that have are multiplied with, `dataset` whether
    results are Datasets.
    """

    dims: tuple[Hashable, ...]
    fields: tuple[Any, ...]
    known: AnyArray
    weight: FloatArray
    dataset: bool

    @classmethod
    def of(cls, parts: Sequence[Any], dims: tuple[Hashable, ...], weights: Any) -> _Cells:
        """Read the cells of the first field, and which of them have data in all of them."""
        first = parts[0]
        fields = []
        for name, variable in _variables(first):
            absent = [d for d in dims if d not in variable.dims]
            if absent:
                raise ValueError(
                    f"dim={absent[0]!r} is no dimension of {name or 'X'!r}, which has "
                    f"{', '.join(map(repr, variable.dims))}; name those of the samples."
                )
            sizes = {d: size for d, size in variable.sizes.items() if d not in dims}
            empty, coords = np.empty(tuple(sizes.values())), _coords_along(variable, sizes)
            fields.append(_xarray().DataArray(empty, coords, tuple(sizes), name))
        n = sum(field.size for field in fields)
        every = np.ones(n, dtype=bool)
        cells = cls(dims, tuple(fields), every, np.ones(n), hasattr(first, "data_vars"))
        known = np.all([~np.isnan(cells._matrix(part)).all(axis=0) for part in parts], axis=0)
        if not known.any():
            raise ValueError("X has no cell with data in every field; check the mask.")
        weight = (cells.weight if weights is None else cells._weights(weights))[known]
        if not np.all(np.isfinite(weight)) or np.any(weight < 0):
            raise ValueError(
                "weights has negative or missing values where X has data; pass one number of at "
                "least zero a cell."
            )
        return replace(cells, known=known, weight=weight)

    def rows(self, part: Any) -> FloatArray:
        """Return the known cells of a field, one sample a row; ValueError where some are NaN."""
        found = self._matrix(part)[:, self.known]
        missing = np.isnan(found)
        if missing.any():
            raise ValueError(
                f"X has missing values in {int(missing.any(axis=0).sum())} cell(s) that have data "
                "at other times; fill them in, or leave those cells out of every sample "
                "(X.where(X.notnull().all(dim)))."
            )
        return found

    def _matrix(self, part: Any) -> FloatArray:
        """Return all cells of a field, one sample a row."""
        variables = dict(_variables(part))
        columns = []
        for field in self.fields:
            # A single array is known by its place, whatever it is called; one of several is not.
            alone = not self.dataset and len(variables) == 1
            name = next(iter(variables)) if alone else field.name
            try:
                ordered = variables[name].transpose(*self.dims, *field.dims)
                _xarray().align(field, ordered, join="exact", exclude=self.dims)
            except (KeyError, ValueError) as error:
                raise ValueError(
                    f"X has other cells than the first field: {error}. Give fields that belong "
                    "together the same variables and dimensions on one grid, as by interp_like."
                ) from None
            columns.append(ordered.to_numpy().astype(float, copy=False).reshape(-1, field.size))
        return np.concatenate(columns, axis=1)

    def _weights(self, weights: Any) -> FloatArray:
        """Return the weight of every cell."""
        found = []
        for field in self.fields:
            given = weights
            if isinstance(weights, str):
                check_choice("weights", weights, ("coslat",))
                given = _root_of_area(field)
            elif hasattr(weights, "data_vars"):
                given = weights[field.name]
            elif not hasattr(weights, "dims"):
                raise ValueError(
                    f"weights is a {type(weights).__name__}; pass 'coslat', or a DataArray over "
                    f"{', '.join(map(repr, field.sizes))}."
                )
            found.append(_along(given, field, tuple(field.dims), "weights").astype(float))
        return np.concatenate(found)

    def unpacked(
        self, rows: FloatArray, dims: tuple[Any, ...], coords: Any, name: str, attrs: Any
    ) -> Any:
        """Return rows of shape (..., known cells) as fields, NaN where there is no data.

        `dims` and `coords` are those of the axes before the last, `name` that of a single array.
        """
        xarray = _xarray()
        every = np.full((*rows.shape[:-1], len(self.known)), np.nan)
        every[..., self.known] = rows
        ends = np.cumsum([field.size for field in self.fields])
        found = {}
        for field, part in zip(self.fields, np.split(every, ends[:-1], axis=-1), strict=True):
            values, along = part.reshape(*rows.shape[:-1], *field.shape), (*dims, *field.dims)
            known = {**field.coords, **coords}
            found[field.name] = xarray.DataArray(values, known, along, attrs=attrs)
        if self.dataset:
            return xarray.Dataset(found, attrs=attrs)
        return next(iter(found.values())).rename(name)


def _parts(X: Any) -> Sequence[Any]:
    """Return a field in a list, or a list of fields as it is; ValueError for anything else."""
    xarray = _xarray()
    parts = X if isinstance(X, list | tuple) else [X]
    if not parts or not all(isinstance(p, xarray.DataArray | xarray.Dataset) for p in parts):
        kinds = ", ".join(sorted({type(part).__name__ for part in parts})) or "an empty list"
        raise ValueError(f"X is {kinds}; pass a DataArray, a Dataset, or a list of them.")
    return parts


def _variables(X: Any) -> list[tuple[Hashable, Any]]:
    """Return the arrays of a DataArray or Dataset, by name."""
    return list(X.data_vars.items()) if hasattr(X, "data_vars") else [(X.name, X)]


def _coords_along(X: Any, dims: Any) -> dict[Any, Any]:
    """Return the coordinates that vary along none but these dimensions."""
    return {key: given for key, given in X.coords.items() if set(given.dims) <= set(dims)}


def _along(array: Any, X: Any, dims: tuple[Hashable, ...], what: str) -> AnyArray:
    """Return an array over some dimensions of X, flat; it is constant along those that it lacks.

    Coordinates say what belongs together, as they do wherever xarray combines two arrays, and not
    the order; without them the order does. ValueError calls the array `what`.
    """
    for key in array.dims:
        held, wanted = array.indexes.get(key), X.indexes.get(key)
        fits = key in dims and array.sizes[key] == X.sizes[key]
        if key in dims and held is not None and wanted is not None and not held.equals(wanted):
            # Where the array has a value several times, none of them is the one that is meant.
            fits = held.is_unique and wanted.isin(held).all()
            array = array.sel({key: wanted}) if fits else array
        if not fits:
            raise ValueError(
                f"{what} has {array.sizes[key]} values along {key!r}, which are not those of X; "
                f"pass one for each along {', '.join(map(repr, dims))}, or some of these."
            )
    lacking = {key: X.sizes[key] for key in dims if key not in array.dims}
    return np.asarray(array.expand_dims(lacking).transpose(*dims).to_numpy().ravel())


def _root_of_area(field: Any) -> Any:
    """Return the root of the cosine of the latitude; ValueError without such a coordinate."""
    for key, given in field.coords.items():
        if str(key).lower() in _LATITUDES or given.attrs.get("standard_name") == "latitude":
            return np.sqrt(np.cos(np.deg2rad(given.astype(float))).clip(0, 1))
    raise ValueError(
        f"weights='coslat' needs a coordinate of latitudes; X has "
        f"{', '.join(map(repr, field.coords)) or 'none'}. Rename it to 'lat', or pass the weights."
    )


def _list_labels(parts: Sequence[Any], dims: tuple[Hashable, ...], group: Any) -> list[Any]:
    """Return one label a sample of a list of fields, in the order of the rows."""
    names = list(range(len(parts)) if group is None else group)
    if isinstance(group, str | Mapping) or len(names) != len(parts):
        raise ValueError(
            f"group={group!r}: for a list of {len(parts)} fields pass a list, one label a field."
        )
    lengths = [int(np.prod([part.sizes[d] for d in dims])) for part in parts]
    return [name for name, m in zip(names, lengths, strict=True) for _ in range(m)]


def _labels(X: Any, dims: tuple[Hashable, ...], group: Any) -> AnyArray:
    """Return one label a sample of one field, in the order of its rows; all alike without any."""
    m = math.prod(X.sizes[key] for key in dims)
    if group is None:
        warn(
            "group=None: all samples are one group, and the modes are ordinary EOFs. Pass one "
            "label a sample, fit(X, dim, group=labels), to serve the worst group."
        )
        return np.full(m, "all")
    if isinstance(group, str):
        try:
            group = X[group]
        except (KeyError, AttributeError):
            raise ValueError(
                f"group={group!r} is no coordinate of X; there are "
                f"{', '.join(map(repr, X.coords))}, and parts of dates such as 'time.season'."
            ) from None
    if hasattr(group, "dims"):
        group = _along(group, X, dims, "group")
    labels = np.asarray(group)
    if labels.shape != (m,):
        raise ValueError(
            f"group has shape {labels.shape} and X has {m} samples along "
            f"{', '.join(map(repr, dims))}; pass one label a sample."
        )
    return labels
