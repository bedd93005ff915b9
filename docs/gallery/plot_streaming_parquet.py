"""
The file is larger than I want to load: can I still fit it?
===========================================================

A Parquet file can be fitted piece by piece. ``fairpca.io.read_moments`` reads it once and counts
what the fit needs of every group, a weight, a mean and a scatter matrix, whose size does not
depend on the number of rows. This example writes a file, fits it both ways, compares the answers,
and measures the memory that each way takes.
"""

# %%
# A file
# ------
# 400,000 rows of 32 columns in single precision, and a column of text that names the group: large
# enough to see the difference, small enough to be written in a second or two. It is written in row
# groups, as large files are.

import json
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fairpca import FairPCA
from fairpca.io import read_moments

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "people.parquet"
rng = np.random.default_rng(0)
names = [f"x{j:02}" for j in range(32)]
scale = np.linspace(3, 0.3, 32).astype(np.float32)
with pq.ParquetWriter(
    path,
    pa.schema([*((name, pa.float32()) for name in names), ("sex", pa.string())]),
    use_dictionary=["sex"],
) as writer:
    for _ in range(16):
        female = rng.random(25_000) < 0.2
        block = rng.standard_normal((25_000, 32), dtype=np.float32)
        block *= np.where(female[:, None], np.roll(scale, 10), scale)
        columns = [*block.T, np.where(female, "female", "male")]
        writer.write_table(pa.table(dict(zip([*names, "sex"], columns, strict=True))))
megabytes = path.stat().st_size / 1e6
print(f"{pq.read_metadata(path).num_rows:,} rows, {megabytes:.0f} MB")

# %%
# Both ways
# ---------
# The stream needs the name of the label column; all other numeric columns are features. Pieces
# have 25,000 rows here; by default they have as many as 64 MB hold. The fit afterwards does not
# see a row. ``progress`` is told after every piece.

moments = read_moments(
    path, sensitive_features="sex", batch_rows=25_000, progress=(told := []).append
)
streamed = FairPCA(4).fit_moments(moments)
print(f"{len(told)} pieces, the last said: {told[-1].rows:,} rows, {told[-1].share:.0%}")
print(streamed.certificate_)

table = pq.read_table(path)
whole = np.column_stack([table[name].to_numpy() for name in names])
loaded = FairPCA(4).fit(whole, sensitive_features=table["sex"].to_numpy())
projectors = [model.components_.T @ model.components_ for model in (streamed, loaded)]
print(f"distance of the two subspaces: {np.linalg.norm(projectors[0] - projectors[1], 2):.0e}")
print("losses, streamed and loaded:", streamed.group_losses_, loaded.group_losses_)

# %%
# Memory, measured
# ----------------
# A process that has done other work before, such as the one that builds this page, is no place to
# measure memory. So a fresh one runs both fits, the stream first, and another thread asks the
# operating system every few milliseconds how much memory the process holds. That counts
# everything: the rows, what the Parquet reader keeps decoded, copies, and memory that was
# released by the program but not yet handed back. It works on Linux, where ``/proc`` is.

program = """
import json, os, sys, threading, time
import numpy as np, pyarrow.parquet as pq
from fairpca import FairPCA
from fairpca.io import read_moments

path, page, curve, marks = sys.argv[1], os.sysconf("SC_PAGE_SIZE"), [], []

def held():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * page / 1e6

def watch():
    while True:
        curve.append((time.perf_counter(), held()))
        time.sleep(0.005)

# A fit of a few rows first: what libraries load when they are first used is not the data's.
FairPCA(1).fit(np.eye(3), sensitive_features=["a", "b", "b"])
threading.Thread(target=watch, daemon=True).start()
time.sleep(0.1)
marks.append(time.perf_counter())
counted = read_moments(path, sensitive_features="sex", batch_rows=25_000, n_jobs=1)
FairPCA(4).fit_moments(counted)
marks.append(time.perf_counter())
table = pq.read_table(path)
X = np.column_stack([table[name].to_numpy() for name in table.column_names if name != "sex"])
FairPCA(4).fit(X, sensitive_features=table["sex"].to_numpy())
marks.append(time.perf_counter())
json.dump({"curve": curve, "marks": marks}, sys.stdout)
"""
done = subprocess.run(
    [sys.executable, "-W", "ignore", "-c", program, str(path)],
    capture_output=True,
    text=True,
    check=True,
)
measured = json.loads(done.stdout)
seconds, held = np.transpose(measured["curve"])
marks = np.array(measured["marks"])
before = held[seconds < marks[0]].max()
peaks = [
    held[(seconds >= start) & (seconds <= end)].max() - before for start, end in pairwise(marks)
]
print(f"before both: {before:.0f} MB, for Python and its libraries")
print(f"streamed: at most {peaks[0]:.0f} MB more; loaded: at most {peaks[1]:.0f} MB more")

# %%
# What the stream takes is a piece at a time and the moments, and neither grows with the number of
# rows; ``python -m benchmarks streaming`` checks that on larger files. What the other way takes
# grows with every row: the decoded table, the array made of it, the labels. Here one job reads;
# several, the default, hold a piece each and are faster.

figure, axis = plt.subplots(figsize=(9, 3.9), layout="constrained")
time = seconds - marks[0]
marks = marks - marks[0]
for i, (way, colour) in enumerate({"streamed": "#0072B2", "loaded whole": "#D55E00"}.items()):
    at = (time >= marks[i]) & (time <= marks[i + 1])
    axis.fill_between(time[at], held[at], before, color=colour, alpha=0.25, lw=0)
    axis.plot(time[at], held[at], color=colour, lw=2)
    axis.text(
        marks[i : i + 2].mean(),
        before + peaks[i] + 0.06 * max(peaks),
        f"{way}: + {peaks[i]:.0f} MB",
        color=colour,
        ha="center",
        fontsize="large",
    )
axis.axhline(before, color="0.4", lw=1)
axis.text(marks[2], before - 8, " Python and\n libraries", va="top", color="0.4")
axis.axhline(before + whole.nbytes / 1e6, color="0.4", lw=1, ls=":")
axis.text(
    marks[2],
    before + whole.nbytes / 1e6,
    f" the numbers\n alone, {whole.nbytes / 1e6:.0f} MB",
    va="bottom",
    color="0.4",
)
axis.set(
    xlabel="seconds", ylabel="memory of the process, MB", ylim=(0, before + 1.25 * max(peaks))
)
axis.set_xlim(0, marks[2] * 1.02)
axis.spines[["top", "right"]].set_visible(False)
plt.show()
folder.cleanup()

# %%
# From the terminal the same is
# ``fairpca fit people.parquet --group sex -r 4 --no-standardize -o model.skops``; files of more
# than 1 GB, directories and patterns are streamed by themselves, and ``--checkpoint`` lets an
# interrupted run go on where it stopped.
