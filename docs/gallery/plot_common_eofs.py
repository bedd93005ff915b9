"""
Which patterns do observations and a climate model share?
=========================================================

Common EOFs are patterns of two sources at once: of observations, and of a model that is to be
judged by them. A model run is often much longer than the observations, and then the EOFs of all
winters together are mostly the model's. ``fairpca.xarray.FairEOF`` finds modes whose worst-served
source is served as well as possible. This example shows, on maps, what that changes.
"""

# %%
# Fifty winters observed, 150 simulated
# -------------------------------------
# The observations are anomalies of the sea surface temperature of the Pacific, winter by winter,
# which the package ``eofs`` by Dawson brings along. The model is made of them: its winters are
# mixtures of the observed ones, with all patterns 25 degrees too far west, a bias that real models
# have too (there it is the cold tongue that reaches too far).

from pathlib import Path

import eofs
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from fairpca.xarray import FairEOF

folder = Path(eofs.__file__).parent / "examples" / "example_data"
with xr.open_dataset(folder / "sst_ndjfm_anom.nc") as data:
    observed = data["sst"].load()
ocean = observed.isel(time=0, drop=True).notnull()

shifted = np.roll(observed.fillna(0.0).to_numpy(), -5, axis=2)
mixtures = np.random.default_rng(0).normal(size=(150, observed.sizes["time"])) / np.sqrt(50)
model = xr.DataArray(
    np.einsum("mt,tij->mij", mixtures, shifted),
    dims=observed.dims,
    coords={"latitude": observed.latitude, "longitude": observed.longitude},
    name="sst",
).where(ocean)
print(dict(observed.sizes), dict(model.sizes))

# %%
# Ordinary EOFs and common ones
# -----------------------------
# For common EOFs pass a list: every entry is a group. Cells count by their area. With
# ``shrinkage=1`` no source has a covariance of its own, which gives the ordinary EOFs of all
# winters. A loss is the variance that a source loses, weighted by area, against three EOFs of its
# own.

fits = {"EOFs": FairEOF(3, shrinkage=1.0), "FairEOF": FairEOF(3)}
losses = {}
for name, eof in fits.items():
    eof.fit([observed, model], group=["observed", "model"], weights="coslat")
    losses[name] = eof.group_losses().to_series().to_dict()
    print(f"{name:8}", {key: round(loss, 2) for key, loss in losses[name].items()})
print(fits["FairEOF"].certificate_)

# %%
# The modes, land in grey. The sign of a mode is arbitrary; here the tropical cells are positive on
# the whole. To the eye the maps are alike: the same three patterns, moved and mixed a little.

figure, axes = plt.subplots(
    2, 3, figsize=(10.5, 4.4), layout="constrained", sharex=True, sharey=True
)
for line, (name, eof) in zip(axes, fits.items(), strict=True):
    modes = eof.components()
    tropics = modes.where(abs(modes.latitude) < 10).sum(("latitude", "longitude"))
    modes = modes * xr.where(tropics < 0, -1, 1)
    for axis, mode in zip(line, modes, strict=True):
        axis.set_facecolor("0.82")
        image = axis.pcolormesh(
            mode.longitude, mode.latitude, mode, cmap="PuOr_r", vmin=-0.12, vmax=0.12
        )
        axis.set(title=f"{name}, mode {int(mode.mode)}", aspect="equal")
for axis in axes[1]:
    axis.set_xlabel("longitude, degrees east")
for axis in axes[:, 0]:
    axis.set_ylabel("latitude")
figure.colorbar(image, ax=axes, label="weight of a cell", shrink=0.8, extend="both")
plt.show()

# %%
# Where on the map
# ----------------
# What the eye cannot tell, the winters can. Rebuild every winter from its three scores, once with
# each set of modes, and compare the mean squared errors cell by cell. Purple cells are rebuilt
# better by FairEOF, orange ones by ordinary EOFs.


def squared_error(eof, field):
    """Return the mean squared error of every cell, in squared kelvin."""
    return ((eof.inverse_transform(eof.transform(field)) - field) ** 2).mean("time")


figure, axes = plt.subplots(
    1, 3, figsize=(10.5, 3.2), layout="constrained", width_ratios=[1.25, 1.25, 1]
)
for axis, (title, field) in zip(
    axes, {"observed": observed, "model": model}.items(), strict=False
):
    change = squared_error(fits["FairEOF"], field) - squared_error(fits["EOFs"], field)
    axis.set_facecolor("0.82")
    image = axis.pcolormesh(
        change.longitude, change.latitude, change, cmap="PuOr_r", vmin=-0.12, vmax=0.12
    )
    axis.set(title=f"{title} winters", aspect="equal", xlabel="longitude, degrees east")
axes[0].set_ylabel("latitude")
figure.colorbar(
    image,
    ax=axes[:2],
    label="change of the error, K²",
    location="bottom",
    extend="both",
    shrink=0.6,
)
colours = {"observed": "#009E73", "model": "#CC79A7"}
for i, name in enumerate(losses):
    for j, (key, loss) in enumerate(losses[name].items()):
        bar = axes[2].barh(1 - i + 0.19 - 0.38 * j, loss, 0.36, color=colours[key])
        axes[2].bar_label(bar, [f"{key} {loss:.1f}"], padding=4)
axes[2].set(yticks=[1, 0], yticklabels=list(losses), title="loss per winter")
axes[2].set_xlim(0, 1.6 * axes[2].get_xlim()[1])
axes[2].spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The observed winters gain nearly everywhere, most of all near the coasts, and the model pays,
# most of all in the open ocean. Whether that is wanted is not for a method to say: if the modes
# are to judge the model by the observations, EOFs of the observations alone are the ruler; if
# both are to be described by the same few numbers, these are the modes whose worse loss is
# smallest.
#
# New winters need no source
# --------------------------
# ``transform`` gives the scores of a field, ``inverse_transform`` a field of scores.

common = fits["FairEOF"]
winter = observed.isel(time=[-1])
rebuilt = common.inverse_transform(common.transform(winter))
print(rebuilt.dims, f"{float(abs(rebuilt - winter).mean()):.2f} K off, on average over the cells")
