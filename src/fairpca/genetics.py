"""Genotypes: PLINK files in, standardised in blocks of SNPs, scores and loadings out for PLINK.

A genotype counts how many of a person's two alleles are the first one (A1) of the .bim file: 0, 1
or 2, one byte each. Rows are never one table of float64, which would take eight times the memory.
Read `StandardizedGenotypes.columns` first.

`fairpca.MaxMinDistanceAnalysis` keeps all populations apart; `fairpca.FairPCA` takes the same
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator
from sklearn.utils import gen_batches

from fairpca._arrays import FloatArray
from fairpca._check import check_choice, listed, require
from fairpca.moments.storage import atomic_write

__all__ = [
    "Genotypes", "StandardizedGenotypes", "read_plink", "read_populations", "standardize",
    "write_eigenvec", "write_loadings",
]  # fmt: skip

#: What stands for a genotype that is not known.
MISSING = -127
# The first bytes of a .bed file whose genotypes are stored SNP by SNP.
_MAGIC = b"\x6c\x1b\x01"
# Entries of a block of columns: 64 megabytes as float64.
BLOCK_ENTRIES = 8_000_000


@dataclass(frozen=True)
class Genotypes:
    """Genotypes of people (rows) at SNPs (columns).

    Attributes
    ----------
    rows : ndarray of int8, shape (m, n)
        How many of the two alleles are the first one: 0, 1, 2, or `MISSING`.
    samples : ndarray of str, shape (m,)
        Names of the people (IID).
    snps : ndarray of str, shape (n,)
    families : ndarray of str, shape (m,)
        FID, as in the .fam file.
    alleles : ndarray of str, shape (2, n)
        The allele that is counted, and the other one.
    chromosomes : ndarray of str, shape (n,)
    """

    rows: NDArray[np.int8]
    samples: NDArray[np.str_]
    snps: NDArray[np.str_]
    families: NDArray[np.str_]
    alleles: NDArray[np.str_]
    chromosomes: NDArray[np.str_]

    def take(self, people: ArrayLike) -> Genotypes:
        """Return some people: their positions, or a mask."""
        own = {name: getattr(self, name)[people] for name in ("rows", "samples", "families")}
        return replace(self, **own)


def read_plink(path: str | Path) -> Genotypes:
    """Read a PLINK file set: cohort.bed, cohort.bim and cohort.fam.

    Parameters
    ----------
    path : str or Path
        With or without ".bed".

    Raises
    ------
    ValueError
        If the .bed file is none, is cut short, or does not have the people and SNPs of the other
        two files. Nothing is returned then.
    """
    opened = require("bed_reader", extra="genetics", purpose="reading PLINK files").open_bed
    stem = str(path).removesuffix(".bed")
    families, samples, *_ = _six_words(f"{stem}.fam")
    chromosomes, snps, _, _, *alleles = _six_words(f"{stem}.bim")
    m, n = len(samples), len(snps)
    with open(stem + ".bed", "rb") as file:
        start, size = file.read(3), file.seek(0, 2)
    expected = 3 + n * ((m + 3) // 4)
    if start != _MAGIC:
        raise ValueError(f"{stem}.bed is not a PLINK 1 file that is stored SNP by SNP.")
    if size != expected:
        raise ValueError(
            f"{stem}.bed has {size:,} bytes; {m:,} people in the .fam file and {n:,} SNPs in the "
            f".bim file need {expected:,}. It is cut short, or belongs to other files."
        )
    with opened(stem + ".bed", iid_count=m, sid_count=n) as bed:
        rows = bed.read(dtype="int8", order="F")
    words = (samples, snps, families, alleles, chromosomes)
    return Genotypes(rows, *(np.array(part, dtype=str) for part in words))


def _six_words(path: str) -> list[tuple[str, ...]]:
    """Return the six columns of a text file of PLINK, divided by blanks or tabs."""
    lines = [line.split() for line in Path(path).read_text("utf-8").splitlines() if line.strip()]
    if any(len(line) != 6 for line in lines):
        raise ValueError(f"{path} has a line that is not six words.")
    return list(zip(*lines, strict=True)) or [()] * 6


def read_populations(
    path: str | Path, samples: Sequence[str] | NDArray[np.str_], column: str | None = None
) -> NDArray[np.str_]:
    """Return the population of every person from a text file.

    Parameters
    ----------
    path : str or Path
        Words divided by blanks or tabs; the first line has names, one of them IID.
    samples : sequence of str
        The people, in the order of the result. The file may have others, in any order.
    column : str, optional
        By default the last one.

    Raises
    ------
    ValueError
        If somebody has no population, or two.
    """
    text = Path(path).read_text(encoding="utf-8-sig")
    head, *lines = [line.split() for line in text.splitlines() if line.strip()] or [[]]
    names = [name.lstrip("#") for name in head]
    column = column or (names or [""])[-1]
    if "IID" not in names or column not in names:
        raise ValueError(f"{path} needs the columns IID and {column!r}; it has {listed(names)}.")
    person, group = names.index("IID"), names.index(column)
    known: dict[str, str] = {}
    for line in lines:
        if len(line) != len(names):
            raise ValueError(f"{path} has {len(names)} columns and a line with {len(line)}.")
        if known.setdefault(line[person], line[group]) != line[group]:
            raise ValueError(f"{path} has {line[person]!r} in two populations.")
    lost = [name for name in map(str, samples) if known.get(name, "NA") == "NA"]
    if lost:
        raise ValueError(
            f"{path} has no population for {len(lost)} of {len(samples)} people: {listed(lost)}; "
            "add them, or leave them out with Genotypes.take."
        )
    return np.array([known[str(name)] for name in samples])


class StandardizedGenotypes(LinearOperator):
    """Genotypes with every SNP standardised where it is used; missing ones count as the mean.

    A LinearOperator: ``self @ V`` and ``self.T @ W`` go through blocks of SNPs.

    Attributes
    ----------
    genotypes : Genotypes
    frequencies : ndarray of shape (n,)
        Of the counted allele.
    scale : ndarray of shape (n,)
        What centred counts are multiplied with; zero for a SNP that never differs.
    """

    def __init__(self, genotypes: Genotypes, frequencies: FloatArray, scale: FloatArray) -> None:
        self.genotypes, self.frequencies, self.scale = genotypes, frequencies, scale
        super().__init__(np.float64, genotypes.rows.shape)  # type: ignore[call-arg]

    def columns(self, part: slice) -> FloatArray:
        """Return some SNPs as float64, shape (m, width)."""
        counts = self.genotypes.rows[:, part]
        found = counts.astype(np.float64, order="F")
        found -= 2 * self.frequencies[part]
        found *= self.scale[part]
        found[counts == MISSING] = 0.0
        return found

    def parts(self) -> list[slice]:
        """Return slices of columns, in order, each small enough to be float64."""
        m, n = self.shape
        return list(gen_batches(n, max(BLOCK_ENTRIES // m, 1)))

    def __getitem__(self, people: ArrayLike) -> StandardizedGenotypes:
        """Return some people, standardised as before: their positions, or a mask."""
        return StandardizedGenotypes(self.genotypes.take(people), self.frequencies, self.scale)

    def _matmat(self, V: FloatArray) -> FloatArray:
        return sum((self.columns(part) @ V[part] for part in self.parts()), np.zeros((1, 1)))

    def _rmatmat(self, W: FloatArray) -> FloatArray:
        return np.concatenate([self.columns(part).T @ W for part in self.parts()])


def standardize(
    genotypes: Genotypes, kind: str = "patterson", *, frequencies: FloatArray | None = None
) -> StandardizedGenotypes:
    """Return genotypes g as ``(g - 2p) / sqrt(2p(1-p))``, the scaling of Patterson et al. (2006).

    Parameters
    ----------
    genotypes : Genotypes
    kind : {"patterson", "center"}
        "center" only subtracts 2p.
    frequencies : ndarray of shape (n,), optional
        p; by default those of the genotypes. New people need those of the people of the fit.

    Returns
    -------
    StandardizedGenotypes
        A missing genotype is 2p before, and zero after.
    """
    check_choice("kind", kind, ("patterson", "center"))
    rows = genotypes.rows
    if frequencies is None:
        parts = gen_batches(rows.shape[1], max(BLOCK_ENTRIES // len(rows), 1))
        frequencies = np.concatenate([_frequencies(rows[:, part]) for part in parts])
    if frequencies.shape != (rows.shape[1],):
        raise ValueError(f"frequencies has shape {frequencies.shape} for {rows.shape[1]} SNPs.")
    variance = 2 * frequencies * (1 - frequencies)
    drift = np.sqrt(variance) if kind == "patterson" else np.ones_like(variance)
    scale = np.divide(1.0, drift, out=np.zeros_like(drift), where=variance > 0)
    return StandardizedGenotypes(genotypes, frequencies, scale)


def _frequencies(block: NDArray[np.int8]) -> FloatArray:
    known = block != MISSING
    sums = np.where(known, block, 0).sum(axis=0, dtype=np.int64)
    return np.asarray(sums / np.maximum(2 * known.sum(axis=0), 1))


def write_eigenvec(
    path: str | Path,
    samples: Sequence[str] | NDArray[np.str_],
    scores: FloatArray,
    *,
    families: Sequence[str] | NDArray[np.str_] | None = None,
) -> None:
    """Write scores as ``plink2 --pca`` writes its .eigenvec, whole or not at all.

    Parameters
    ----------
    path : str or Path
    samples : sequence of str
        IID of every row.
    scores : ndarray of shape (m, r)
        What `transform` returns.
    families : sequence of str, optional
        FID of every row; without them the file has no such column.
    """
    if len(samples) != len(scores):
        raise ValueError(f"there are {len(samples)} samples and {len(scores)} rows of scores.")
    words = {"IID": samples} if families is None else {"FID": families, "IID": samples}
    _write(path, [*words, *_numbered(scores.shape[1])], list(words.values()), scores)


def write_loadings(path: str | Path, rows: StandardizedGenotypes, components: FloatArray) -> None:
    """Write components as ``plink2 --score`` reads them, for projecting people who come later.

    A second file, named as `path` with ".afreq" added, has the allele frequencies of the fit. Then

        plink2 --bfile new --read-freq out.afreq --score out 1 2 header-read center
        cols=+scoresums,-scoreavgs --score-col-nums 3-7 --out new

    (one line, for five components) writes the scores of new people: `transform`, up to one number
    a component that is the same for everybody, and zero where the model was fitted to `rows`.
    Of haploid genotypes PLINK counts 0 to 1: leave them out of the fit.

    Parameters
    ----------
    path : str or Path
    rows : StandardizedGenotypes
        The rows of the fit.
    components : ndarray of shape (r, n)
        `components_` of the model.
    """
    genotypes = rows.genotypes
    weights = (components * rows.scale).T
    first, other = genotypes.alleles
    frequencies = [genotypes.chromosomes, genotypes.snps, other, first]
    head = ["ID", "A1", *_numbered(weights.shape[1])]
    _write(path, head, [genotypes.snps, first], weights)
    known = np.full((len(weights), 1), 2 * len(genotypes.rows))
    columns = np.hstack([rows.frequencies[:, None], known])
    _write(f"{path}.afreq", "CHROM ID REF ALT ALT_FREQS OBS_CT".split(), frequencies, columns)


def _numbered(r: int) -> list[str]:
    return [f"PC{j}" for j in range(1, r + 1)]


def _write(path: str | Path, head: list[str], names: Sequence[Any], numbers: FloatArray) -> None:
    """Write a table of PLINK: names and numbers divided by tabs, "#" before the head."""
    with atomic_write(path, "w", encoding="utf-8", newline="\n") as file:
        file.write("#" + "\t".join(head) + "\n")
        for *words, line in zip(*names, numbers, strict=True):
            file.write("\t".join([*map(str, words), *(f"{x:.12g}" for x in line)]) + "\n")
