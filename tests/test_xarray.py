"""Fields: the EOFs of xeofs with one group, and common EOFs of several sources."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import fairpca
from fairpca import FairPCA
from fairpca.xarray import FairEOF


def field(m=80, seed=0, scale=1.0, name="t"):
    """Return a field on a coarse globe with land (no data) in one corner, with dates."""
    rng = np.random.default_rng(seed)
    lat, lon = np.linspace(-75, 75, 6), np.arange(8) * 45.0
    patterns = np.random.default_rng(9).normal(size=(4, 6, 8))
    values = np.einsum("mp,pij->mij", rng.normal(size=(m, 4)) * [4, 3, 2, 1], patterns) * scale
    values += rng.normal(size=values.shape) + np.cos(np.deg2rad(lat))[:, None] * 10
    coords = {"time": pd.date_range("2000-01-15", periods=m, freq="30D"), "lat": lat, "lon": lon}
    found = xr.DataArray(values, dims=("time", "lat", "lon"), coords=coords, name=name)
    return found.where(~((found.lat > 40) & (found.lon < 100)))


# xeofs uses names and habits that xarray will refuse one day.
@pytest.mark.filterwarnings("ignore:Deleting a single level of a MultiIndex:FutureWarning")
@pytest.mark.filterwarnings("ignore:The `dims` argument has been:PendingDeprecationWarning")
def test_one_group_has_the_eofs_of_xeofs():
    """Weights and missing cells included, for a DataArray, a Dataset and standardised cells."""
    import xeofs

    da = field()
    both = xr.Dataset({"t": da, "z": field(seed=1) * 3})
    cases = [(da, False), (da, True), (both, False)]
    for X, standardize in cases:
        theirs = xeofs.single.EOF(4, use_coslat=True, standardize=standardize, solver="full")
        theirs.fit(X, dim="time")
        eof = FairEOF(4, standardize=standardize)
        eof.fit(X, dim="time", group=np.zeros(80), weights="coslat")
        mine, other = eof.components(), theirs.components()
        ones = mine.to_dataarray() if isinstance(X, xr.Dataset) else mine
        others = other.to_dataarray() if isinstance(X, xr.Dataset) else other
        signs = np.sign((ones * others).sum([d for d in ones.dims if d != "mode"]))
        xr.testing.assert_allclose(ones, others * signs, atol=1e-6)
        assert int(ones.isnull().sum()) > 0
        xr.testing.assert_allclose(eof.scores(), theirs.scores() * signs, atol=1e-6)
        assert eof.scores().dims == theirs.scores().dims
        for name in ("explained_variance", "explained_variance_ratio", "singular_values"):
            expected = getattr(theirs, name)()
            xr.testing.assert_allclose(getattr(eof, name)(), expected, rtol=1e-6)
        if X is da:
            rebuilt = eof.inverse_transform(eof.scores())
            expected = theirs.inverse_transform(theirs.scores())
            xr.testing.assert_allclose(rebuilt, expected, atol=1e-6)


def test_the_groups_are_those_of_fair_pca():
    da = field()
    season = da["time.season"]
    eof = FairEOF(3).fit(da, dim="time", group="time.season", weights="coslat")
    flat = da.stack(cell=("lat", "lon")).dropna("cell")
    weighted = flat * np.sqrt(np.cos(np.deg2rad(flat.lat)))
    model = FairPCA(3).fit(weighted.to_numpy(), sensitive_features=season.to_numpy())
    np.testing.assert_allclose(eof.model_.group_losses_, model.group_losses_, rtol=1e-9)
    np.testing.assert_allclose(eof.scores().to_numpy(), model.transform(weighted.to_numpy()).T)
    losses = eof.group_losses()
    assert losses.group.to_numpy().tolist() == ["DJF", "JJA", "MAM", "SON"]
    assert losses.samples.sum() == 80
    assert eof.certificate_.lower_bound <= float(losses.max()) * (1 + 1e-9)
    assert "worst group" in eof.components().attrs["certificate"]


@pytest.mark.parametrize("group", ["source", "array", "list"])
def test_groups_along_time_in_several_ways(group):
    source = np.where(np.arange(80) % 4 == 0, "b", "a")
    da = field().assign_coords(source=("time", source))
    given = {"source": "source", "array": da["source"], "list": source.tolist()}[group]
    eof = FairEOF(2).fit(da, group=given)
    assert eof.model_.groups_ == ["a", "b"]
    assert "source" in eof.scores().coords


def test_members_of_an_ensemble_are_groups_along_a_dimension():
    members = [field(m=20, seed=i, scale=1 + i).assign_coords(time=range(20)) for i in range(3)]
    ensemble = xr.concat(members, xr.DataArray(["x", "y", "z"], dims="member", name="member"))
    eof = FairEOF(2).fit(ensemble, dim=("member", "time"), group="member")
    assert eof.model_.groups_ == ["x", "y", "z"]
    assert eof.model_.group_counts_.tolist() == [20, 20, 20]
    assert eof.scores().dims == ("mode", "member", "time")
    alone = eof.transform(ensemble.transpose("lat", "time", "member", "lon"))
    xr.testing.assert_allclose(alone, eof.scores())


def test_common_eofs_of_a_list_treat_both_sources_alike():
    one, other = field(m=120), field(m=30, seed=3, scale=0.5)
    # Another climate: the same variance elsewhere.
    mirrored = np.nan_to_num(other.to_numpy()[:, :, ::-1])
    other = other.copy(data=mirrored).where(one.isel(time=0, drop=True).notnull())
    eof = FairEOF(3).fit([one, other], group=["model", "reanalysis"], weights="coslat")
    together = xr.concat([one, other], "time")
    plain = FairEOF(3).fit(together, group=np.zeros(150), weights="coslat")
    sources = ["model"] * 120 + ["reanalysis"] * 30
    cells = together.stack(cell=("lat", "lon")).dropna("cell")
    rows = (cells * np.sqrt(np.cos(np.deg2rad(cells.lat)))).to_numpy()
    losses = fairpca.metrics.group_losses(plain.model_, rows, sensitive_features=sources)
    assert float(eof.group_losses().max()) < losses.max()
    assert np.ptp(eof.model_.group_losses_) < np.ptp(losses)
    scores = eof.scores()
    assert [part.sizes["time"] for part in scores] == [120, 30]
    xr.testing.assert_equal(scores[1].time, other.time)
    xr.testing.assert_allclose(eof.transform([other])[0], scores[1])


def test_all_modes_give_the_field_back():
    da = field(m=90)
    n = int(da.isel(time=0).notnull().sum())
    eof = FairEOF(n, standardize=True).fit(da, group=np.arange(90) % 2, weights="coslat")
    xr.testing.assert_allclose(eof.inverse_transform(eof.scores()), da.rename("reconstructed"))
    # One moment alone, without a dimension of time.
    one = eof.inverse_transform(eof.scores().isel(time=4))
    xr.testing.assert_allclose(one.drop_vars("time", errors="ignore"), da.isel(time=4, drop=True))


def test_weights_of_ones_own():
    da = field()
    weights = np.sqrt(np.cos(np.deg2rad(da.lat)))
    half = np.arange(80) % 2
    ours = FairEOF(2).fit(da, group=half, weights=weights)
    named = FairEOF(2).fit(da, group=half, weights="coslat")
    xr.testing.assert_allclose(ours.components(), named.components())
    both = xr.Dataset({"t": da, "z": 2 * da})
    only = xr.Dataset({"t": weights, "z": 0 * weights})
    of_each = FairEOF(2).fit(both, group=half, weights=only)
    assert float(abs(of_each.components()["z"]).max()) < 1e-12


def test_without_groups_it_warns_in_its_own_words():
    with pytest.warns(UserWarning, match="group=None: all samples are one group"):
        FairEOF(2).fit(field())


BAD = {
    "kind": (lambda: np.ones((3, 3)), {}, "X is ndarray; pass a DataArray"),
    "empty": (list, {}, "X is an empty list"),
    "dim": (field, {"dim": "level"}, "dim='level' is no dimension of 't'"),
    "gaps": (
        lambda: (
            field().where(field().time != field().time[3], other=np.nan).where(field().lat > 0)
        ),
        {},
        "missing values in",
    ),
    "nothing": (lambda: field() * np.nan, {}, "no cell with data"),
    "group name": (field, {"group": "sites"}, "group='sites' is no coordinate of X"),
    "group length": (field, {"group": [1, 2]}, "group has shape .2,. and X has 80 samples"),
    "group cells": (
        field,
        {"group": "lat"},
        "group has 6 values along 'lat', .* pass one for each along 'time'",
    ),
    "group list": (
        lambda: [field()],
        {"group": ["a", "b"]},
        "group=.'a', 'b'.: for a list of 1 fields",
    ),
    "grid": (
        lambda: [field(), field().isel(lon=slice(4))],
        {},
        "other cells than the first field: .*'lon'",
    ),
    "variable": (
        lambda: [xr.Dataset({"t": field()}), xr.Dataset({"z": field()})],
        {},
        "X has other cells than the first field: 't'",
    ),
    "weights": (field, {"weights": "area"}, "weights='area'"),
    "weights dim": (field, {"weights": field()}, "weights has 80 values along 'time'"),
    "weights kind": (field, {"weights": np.ones(6)}, "weights is a ndarray; pass 'coslat'"),
    "weights elsewhere": (
        field,
        {"weights": xr.DataArray(np.ones(6), {"lat": np.arange(6)}, "lat")},
        "weights has 6 values along 'lat', which are not those",
    ),
    "weights of some": (
        field,
        {"weights": field().lat[:3] ** 2},
        "weights has 3 values along 'lat'",
    ),
    "weights without coordinates": (
        field,
        {"weights": xr.DataArray(np.ones(3), dims="lat")},
        "weights has 3 values along 'lat', which are not those",
    ),
    "group elsewhere": (
        field,
        {"group": xr.DataArray(np.arange(80) % 2, {"time": np.arange(80)}, "time")},
        "group has 80 values along 'time', which are not those",
    ),
    "part of a date": (field, {"group": "time.foo"}, "group='time.foo' is no coordinate"),
    "weights sign": (field, {"weights": field().lat}, "weights has negative"),
    "latitude": (
        lambda: field().rename(lat="y"),
        {"weights": "coslat"},
        "weights='coslat' needs a coordinate of latitudes; X has 'y', 'lon'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_wrong_arguments_are_named(case):
    make, options, match = BAD[case]
    with pytest.raises(ValueError, match=match):
        FairEOF(2).fit(make(), **{"group": None, **options})


def test_modes_and_unfitted_models_are_refused():
    with pytest.raises(ValueError, match=r"n_modes=99 must be .* data, 42"):
        FairEOF(99).fit(field(), group="time.season")
    with pytest.raises(ValueError, match="not fitted"):
        FairEOF(2).components()


def test_coordinates_say_what_belongs_together():
    """Groups, weights and modes in another order were taken by their place."""
    da = field(m=40)
    labels = xr.DataArray(np.where(np.arange(40) < 12, "few", "many"), {"time": da.time}, "time")
    weights = xr.DataArray([0.0, 1, 2, 1, 1, 1], {"lat": da.lat}, "lat")
    expected = FairEOF(2, shrinkage=0.0).fit(da, group=labels, weights=weights)
    found = FairEOF(2, shrinkage=0.0).fit(da, group=labels[::-1], weights=weights[::-1])
    xr.testing.assert_allclose(found.components(), expected.components())
    scores = expected.scores()
    whole = expected.inverse_transform(scores)
    xr.testing.assert_allclose(expected.inverse_transform(scores.isel(mode=[1, 0])), whole)
    parts = [expected.inverse_transform(scores.sel(mode=[mode])) for mode in (1, 2)]
    mean = expected.inverse_transform(0 * scores)
    xr.testing.assert_allclose(sum(parts) - mean, whole)


@pytest.mark.parametrize("constant", [0.1, 0.5, 1e6 / 3])
def test_a_cell_that_never_changes_is_not_blown_up(constant):
    values = np.random.default_rng(0).normal(size=(60, 12))
    values[:, 5] = constant
    field = xr.DataArray(values, dims=("time", "x"))
    model = FairEOF(3, standardize=True).fit(field, group=["a"] * 40 + ["b"] * 20)
    new = field.isel(time=[0]).copy(deep=True)
    before = model.transform(new).values
    new[0, 5] += 5
    np.testing.assert_allclose(model.transform(new).values, before, atol=1e-9)


def test_labels_of_a_list_are_a_list_and_modes_are_a_number():
    field = xr.DataArray(np.random.default_rng(0).normal(size=(20, 4)), dims=("time", "x"))
    for group in ("ab", {"a": 0, "b": 1}):
        with pytest.raises(ValueError, match="one label a field"):
            FairEOF(1).fit([field, 2 * field], group=group)
    for n_modes in ("2", None, 1.5):
        with pytest.raises(ValueError, match=r"n_modes=.* must be an integer between 1"):
            FairEOF(n_modes).fit(field, group=["a", "b"] * 10)


def test_of_a_dataset_the_variable_of_the_fit_is_taken():
    """The first one was taken in silence, whatever it was."""
    da = field()
    both = xr.Dataset({"z": field(seed=1) * 3, "t": da})
    eof = FairEOF(2).fit(da, "time", group=["a", "b"] * 40)
    np.testing.assert_array_equal(eof.transform(both), eof.scores())
    np.testing.assert_array_equal(eof.transform(both[["t"]].rename(t="u")), eof.scores())
    with pytest.raises(ValueError, match="other cells than the first field: 't'"):
        eof.transform(both.rename(t="u"))
