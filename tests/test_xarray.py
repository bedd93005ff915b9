"""Fields: the EOFs of xeofs with one group, and common EOFs of several sources."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from fairpca import FairPCA, GroupMoments
from fairpca.xarray import FairEOF

# Importing xeofs takes longer than the tests.
pytestmark = pytest.mark.slow


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


# xeofs itself, not our use of it, says what xarray will refuse one day.
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
    U, moments = plain.model_.components_.T, GroupMoments.from_array(rows, sources)
    S = moments.second_moments(moments.pooled().mean[0])
    own = np.linalg.eigvalsh(S)[:, -3:].sum(axis=1)
    losses = (own - np.einsum("nr,knm,mr->k", U, S, U))[::-1]
    assert float(eof.group_losses().max()) < losses.max()
    scores = eof.scores()
    assert [part.sizes["time"] for part in scores] == [120, 30]
    xr.testing.assert_equal(scores[1].time, other.time)
    xr.testing.assert_allclose(eof.transform([other])[0], scores[1])


def test_all_modes_give_the_field_back():
    da = field(m=90)
    n = int(da.isel(time=0).notnull().sum())
    eof = FairEOF(n, standardize=True).fit(da, group=np.arange(90) % 2, weights="coslat")
    xr.testing.assert_allclose(eof.inverse_transform(eof.scores()), da)
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


def test_wrong_arguments_are_named():
    few = xr.DataArray(np.ones(3), {"lat": field().lat[:3]}, "lat")
    gaps = field().where(field().time != field().time[3]).where(field().lat > 0, 1.0)
    datasets = [xr.Dataset({"t": field()}), xr.Dataset({"z": field()})]
    group = np.arange(80) % 2
    for X, options, match in [
        (field(), {"dim": "level"}, "'level' not found"),
        (gaps, {}, "partial NaN"),
        (field(), {"group": "sites"}, "group='sites' is no coordinate of X"),
        (field(), {"group": "time.foo"}, "group='time.foo' is no coordinate"),
        (field(), {"group": [1, 2]}, "2 rows .*but X has 80"),
        (field(), {"group": field().time[1:]}, "missing label"),
        ([field()], {"group": ["a", "b"]}, "one label for each of 1 fields"),
        ([field(), field().isel(lon=slice(4))], {"group": None}, "'lon'"),
        (datasets, {"group": None}, "partial NaN"),
        (field(), {"weights": "area"}, "weights='area'"),
        (field(), {"weights": few}, "not equal along .*'lat'"),
        (field().rename(lat="y"), {"weights": "coslat"}, "No latitude coordinate"),
    ]:
        with pytest.raises(ValueError, match=match):
            FairEOF(2).fit(X, **{"group": group, **options})
    with pytest.raises(ValueError, match="not fitted"):
        FairEOF(2).components()
    with pytest.warns(UserWarning, match="all rows are one group"):
        FairEOF(2).fit(field())


def test_coordinates_say_what_belongs_together():
    """Groups and modes in another order were taken by their place."""
    da = field(m=40)
    labels = xr.DataArray(np.where(np.arange(40) < 12, "few", "many"), {"time": da.time}, "time")
    expected = FairEOF(2).fit(da, group=labels)
    found = FairEOF(2).fit(da, group=labels[::-1])
    xr.testing.assert_allclose(found.components(), expected.components())
    scores = expected.scores()
    whole = expected.inverse_transform(scores)
    xr.testing.assert_allclose(expected.inverse_transform(scores.isel(mode=[1, 0])), whole)
    parts = [expected.inverse_transform(scores.sel(mode=[mode])) for mode in (1, 2)]
    xr.testing.assert_allclose(sum(parts) - expected.inverse_transform(0 * scores), whole)
