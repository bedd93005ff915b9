"""
My rows are in Dask: do I get the same components?
==================================================

Yes, to rounding, and in one pass. The fit needs three things of every group: its weight, its mean
and its scatter matrix. Each partition counts its own where its rows are, and only these small
tables travel and are merged. This example fits ``FairPCA`` to a Dask array whose partitions are
nothing like each other, compares it with a fit in memory, and shows what happens to those who
average the components of the partitions instead.
"""

# %%
# Rows that came in an order
# --------------------------
# Two groups with different directions, in twelve partitions. As in many tables that grew over
# time, the first partitions hold almost only one group, and the other comes later: in the last
# partition it has a third of the rows. Another array, with the same chunks, says who belongs
# where.

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from dask.distributed import Client

from fairpca import FairPCA
from fairpca.distributed.dask import moments

rng = np.random.default_rng(0)
n_rows, n_parts, n_columns, r = 36_000, 12, 24, 4
is_b = rng.random(n_rows) < 0.4 * np.linspace(0, 1, n_rows) ** 3
X = rng.normal(size=(n_rows, n_columns)) * 3 * 0.8 ** np.arange(n_columns)
X[is_b] = 1.2 * X[is_b] @ np.linalg.qr(rng.normal(size=(n_columns, n_columns)))[0]
group = np.where(is_b, "b", "a")

size = n_rows // n_parts
rows = da.from_array(X, chunks=(size, n_columns))
labels = da.from_array(group, chunks=size)
print(rows)

# %%
# The same estimator, the same call
# ---------------------------------
# ``fit`` notices that the rows are a Dask collection. The work goes to the current
# ``distributed.Client``, if there is one, otherwise to threads of this process. Here the client is
# a small cluster inside this process; ``Client("tcp://...")`` is all that changes for a real one.

in_memory = FairPCA(r).fit(X, sensitive_features=group)
with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
    print(len(client.scheduler_info()["workers"]), "workers")
    model = FairPCA(r).fit(rows, sensitive_features=labels)
    projected = model.transform(rows)
    first = projected[:3].compute()
print(model.certificate_)
print(type(projected).__module__, projected.shape, "lazy; its first rows are", first[0].round(2))


def distance(components):
    """Return the distance of a subspace from that of the fit in memory, 0 to 1."""
    ours, theirs = components.T @ components, in_memory.components_.T @ in_memory.components_
    return float(np.linalg.norm(ours - theirs, 2))


print(f"distance from the fit in memory: {distance(model.components_):.0e}")

# %%
# What travels are moments. They can be counted alone, kept in a small file, and fitted later with
# any number of components or another criterion, without the rows.

counted = moments(rows, labels)
kilobytes = (counted.scatter.nbytes + counted.mean.nbytes) / 1000
print(f"{X.nbytes / 1e6:.1f} MB of rows became {kilobytes:.0f} kB of moments")
again = FairPCA(r).fit_moments(counted)
print(f"distance from the fit in memory: {distance(again.components_):.0e}")

# %%
# Why not average?
# ----------------
# Fit every partition by itself and average the twelve projectors, as one might do by hand: the
# early partitions know almost nothing of group b, and outvote the rest.

parts = [slice(i * size, (i + 1) * size) for i in range(n_parts)]
alone = [FairPCA(r, shrinkage=0.0).fit(X[p], sensitive_features=group[p]) for p in parts]
mean_projector = sum(model.components_.T @ model.components_ for model in alone) / n_parts
averaged = np.linalg.eigh(mean_projector)[1][:, -r:].T
print("one partition alone:", *(f"{distance(part.components_):.2f}" for part in alone))
print("their average:", round(distance(averaged), 2))

# %%
# On the left, who is in the partitions. On the right, how far each way ends from the fit in
# memory, on a scale that goes down to the rounding of a computer.

figure, axes = plt.subplots(1, 2, figsize=(10, 3.9), layout="constrained", width_ratios=[1, 1.25])
counts = np.array([[np.sum(group[p] == name) for p in parts] for name in "ab"])
numbers = np.arange(1, n_parts + 1)
axes[0].bar(numbers, counts[0], color="#009E73", label="group a")
axes[0].bar(numbers, counts[1], bottom=counts[0], color="#CC79A7", label="group b")
axes[0].set(xlabel="partition", ylabel="rows", xticks=numbers[::2] + 1, title="who is where")
axes[0].set_ylim(0, 1.25 * size)
axes[0].legend(frameon=False, ncols=2, loc="upper left")

ways = {
    "each partition alone": [distance(part.components_) for part in alone],
    "their average": [distance(averaged)],
    "Dask, moments merged": [distance(model.components_)],
    "the moments, fitted later": [distance(again.components_)],
}
for i, found in enumerate(ways.values()):
    colour = "#D55E00" if i < 2 else "#0072B2"
    # A distance of exactly zero would not be on a logarithmic scale.
    axes[1].scatter(np.maximum(found, 1e-16), [-i] * len(found), s=60, color=colour, alpha=0.7)
axes[1].axvspan(1e-17, 1e-11, color="0.93", zorder=0, lw=0)
axes[1].text(3e-17, -1.4, "rounding", color="0.4", ha="left", va="center")
axes[1].set(xscale="log", xlim=(1e-17, 5), ylim=(-3.6, 0.6))
axes[1].set(xlabel="distance from the fit in memory", title="where each way ends")
axes[1].set_yticks([-i for i in range(len(ways))], list(ways))
for axis in axes:
    axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Data frames work the same: ``fit(frame, sensitive_features="sex")`` takes the column out of the
# features. Too many columns for a scatter matrix are fitted by products with the rows instead, a
# few passes over the partitions, without being asked.
