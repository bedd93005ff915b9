"""Genotypes: PLINK files in, standardised in blocks, what is damaged refused, files for PLINK."""

import numpy as np
import pytest

from fairpca import FairPCA, MaxMinDistanceAnalysis, genetics
from fairpca.genetics import MISSING, Genotypes, read_plink, read_populations, standardize


def people(m=30, n=80, seed=0):
    """Return genotypes of three populations, some of them missing, and the populations."""
    rng = np.random.default_rng(seed)
    y = np.array(["AFR", "EAS", "EUR"])[np.arange(m) % 3]
    shares = rng.uniform(0.1, 0.9, size=(3, n))
    rows = rng.binomial(2, shares[np.arange(m) % 3]).astype(np.int8)
    rows[rng.random(size=rows.shape) < 0.03] = MISSING
    rows[:, 5] = 2
    rows[:, 6] = MISSING
    samples = np.array([f"person{i}" for i in range(m)])
    snps = np.array([f"rs{j}" for j in range(n)])
    alleles = np.array([["A"] * n, ["C"] * n])
    found = Genotypes(rows, samples, snps, np.full(m, "fam"), alleles, np.full(n, "7"))
    return found, y


@pytest.fixture
def cohort(tmp_path):
    """The same people as PLINK files; what `read_plink` takes."""
    bed_reader = pytest.importorskip("bed_reader")
    made, _ = people()
    properties = {
        "fid": made.families,
        "iid": made.samples,
        "sid": made.snps,
        "chromosome": made.chromosomes,
        "allele_1": made.alleles[0],
        "allele_2": made.alleles[1],
    }
    bed_reader.to_bed(tmp_path / "cohort.bed", made.rows, properties=properties)
    return tmp_path / "cohort"


def by_definition(genotypes, frequencies=None):
    """Return genotypes standardised as Patterson et al. do, as one table."""
    g = np.where(genotypes.rows == MISSING, np.nan, genotypes.rows)
    if frequencies is None:
        known = np.isfinite(g)
        frequencies = np.where(known, g, 0).sum(axis=0) / np.maximum(2 * known.sum(axis=0), 1)
    p = frequencies
    with np.errstate(invalid="ignore", divide="ignore"):
        found = (g - 2 * p) / np.sqrt(2 * p * (1 - p))
    return np.where(np.isfinite(found), found, 0.0)


class TestFiles:
    def test_read_back(self, cohort):
        made, _ = people()
        for path in (cohort, f"{cohort}.bed"):
            for name, part in vars(read_plink(path)).items():
                assert np.array_equal(part, getattr(made, name)), name

    def test_words_are_divided_by_blanks_or_tabs(self, cohort):
        bim = cohort.with_suffix(".bim")
        bim.write_text(bim.read_text().replace("\t", " "))
        assert read_plink(cohort).snps[1] == "rs1"
        bim.write_text(bim.read_text().replace("rs1 ", "", 1))
        with pytest.raises(ValueError, match=r"cohort\.bim has a line that is not six words"):
            read_plink(cohort)

    @pytest.mark.parametrize("end", [".bed", ".bim", ".fam"])
    def test_a_file_is_missing(self, cohort, end):
        cohort.with_suffix(end).unlink()
        with pytest.raises(FileNotFoundError, match=rf"cohort\{end}"):
            read_plink(cohort)

    @pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b"x", lambda b: b[:2]])
    def test_cut_short_or_too_long(self, cohort, change):
        bed = cohort.with_suffix(".bed")
        bed.write_bytes(change(bed.read_bytes()))
        with pytest.raises(ValueError, match=r"cohort\.bed (has \d+ bytes|is not a PLINK)"):
            read_plink(cohort)

    @pytest.mark.parametrize("start", [b"\x6c\x1b\x00", b"PK\x03", b"\x00\x00\x00"])
    def test_another_kind_of_file(self, cohort, start):
        bed = cohort.with_suffix(".bed")
        bed.write_bytes(start + bed.read_bytes()[3:])
        with pytest.raises(ValueError, match="is not a PLINK 1 file"):
            read_plink(cohort)

    @pytest.mark.parametrize("end", [".fam", ".bim"])
    def test_another_number_of_people_or_snps(self, cohort, end):
        path = cohort.with_suffix(end)
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(lines[:-4]))
        with pytest.raises(ValueError, match="belongs to other files"):
            read_plink(cohort)


class TestPopulations:
    def test_in_the_order_of_the_samples(self, tmp_path):
        path = tmp_path / "pops.txt"
        path.write_text("#FID IID sex region pop\nf c 1 EUR z\nf a 2 EUR x\n\nf b 1 AFR y\n")
        assert read_populations(path, ["a", "b"]).tolist() == ["x", "y"]
        assert read_populations(path, ["c", "b"], "region").tolist() == ["EUR", "AFR"]

    @pytest.mark.parametrize(
        "text, said",
        [
            ("IID pop\na x\n", r"no population for 1 of 2 people: 'b'"),
            ("IID pop\na x\nb NA\n", r"no population for 1 of 2 people: 'b'"),
            ("IID pop\na x\nb y\na z\n", "'a' in two populations"),
            ("IID pop\na x\nb y extra\n", "2 columns and a line with 3"),
            ("person pop\na x\nb y\n", "needs the columns IID"),
            ("", "needs the columns IID"),
        ],
    )
    def test_what_is_missing_is_named(self, tmp_path, text, said):
        path = tmp_path / "pops.txt"
        path.write_text(text)
        with pytest.raises(ValueError, match=said):
            read_populations(path, ["a", "b"])


class TestStandardized:
    @pytest.fixture(autouse=True)
    def small_blocks(self, monkeypatch):
        # Blocks of three SNPs.
        monkeypatch.setattr(genetics, "BLOCK_ENTRIES", 90)

    def test_as_patterson_has_it(self):
        made, _ = people()
        rows, X = standardize(made), by_definition(made)
        rng = np.random.default_rng(1)
        V, W = rng.normal(size=(80, 4)), rng.normal(size=(30, 4))
        np.testing.assert_allclose(rows.columns(slice(None)), X, atol=1e-12)
        np.testing.assert_allclose(rows @ V, X @ V, atol=1e-12)
        np.testing.assert_allclose(rows.T @ W, X.T @ W, atol=1e-12)
        np.testing.assert_allclose(rows @ V[:, 0], X @ V[:, 0], atol=1e-12)
        np.testing.assert_allclose(rows.T @ W[:, 0], X.T @ W[:, 0], atol=1e-12)
        centred = standardize(made, "center").columns(slice(None))
        p = rows.frequencies
        np.testing.assert_allclose(centred, X * np.sqrt(2 * p * (1 - p)), atol=1e-12)

    def test_new_people_are_standardised_as_those_of_the_fit(self):
        made, _ = people()
        first, rest = made.take(np.arange(20)), made.take(np.arange(30) >= 20)
        frequencies = standardize(first).frequencies
        found = standardize(rest, frequencies=frequencies).columns(slice(None))
        np.testing.assert_allclose(found, by_definition(rest, frequencies), atol=1e-12)
        with pytest.raises(ValueError, match="frequencies has shape"):
            standardize(rest, frequencies=frequencies[:3])
        with pytest.raises(ValueError, match="kind='plain'"):
            standardize(rest, "plain")

    @pytest.mark.parametrize("options", [{}, {"within": "identity"}, {"shrinkage": 0.5}], ids=str)
    def test_pairs_of_populations_are_those_of_the_table(self, options):
        made, y = people()
        rows, X = standardize(made), by_definition(made)
        weight = np.random.default_rng(0).integers(0, 3, size=30)
        ours, table = (MaxMinDistanceAnalysis(1, **options).fit(Z, y, weight) for Z in (rows, X))
        np.testing.assert_allclose(ours.pair_shares_, table.pair_shares_, atol=1e-9)
        np.testing.assert_allclose(ours.components_, table.components_, atol=1e-8)
        np.testing.assert_allclose(ours.transform(rows), table.transform(X), atol=1e-8)
        assert np.array_equal(ours.predict(rows), table.predict(X))
        ours, table = (model.new_rows(Z, y) for model, Z in ((ours, rows), (table, X)))
        np.testing.assert_allclose(ours.shares, table.shares, atol=1e-8)
        with pytest.raises(ValueError, match="the model has 80"):
            MaxMinDistanceAnalysis(1).fit(X, y).transform(standardize(people(n=70)[0]))

    def test_fair_pca_takes_the_same_rows(self):
        made, y = people()
        rows, X = standardize(made), by_definition(made)
        ours, table = (FairPCA(2).fit(Z, sensitive_features=y) for Z in (rows, X))
        np.testing.assert_allclose(ours.group_losses_, table.group_losses_, rtol=1e-8)


class TestForPlink:
    def test_scores(self, tmp_path):
        path = tmp_path / "out.eigenvec"
        genetics.write_eigenvec(path, ["a", "b"], np.array([[1.5, -2], [0, 1e-9]]))
        assert path.read_text() == "#IID\tPC1\tPC2\na\t1.5\t-2\nb\t0\t1e-09\n"
        genetics.write_eigenvec(path, ["a"], np.array([[1.5]]), families=["f"])
        assert path.read_text() == "#FID\tIID\tPC1\nf\ta\t1.5\n"
        with pytest.raises(ValueError, match="2 samples and 1 rows"):
            genetics.write_eigenvec(path, ["a", "b"], np.array([[1.5]]))

    def test_loadings_score_new_people_as_transform_does(self, tmp_path):
        made, y = people()
        first, new = made.take(np.arange(20)), made.take(np.arange(20, 30))
        rows = standardize(first)
        model = MaxMinDistanceAnalysis(2).fit(rows, y[:20])
        genetics.write_loadings(tmp_path / "out", rows, model.components_)
        # What `plink2 --score center` does: counts less twice the frequency, missing ones zero.
        table = np.genfromtxt(tmp_path / "out", skip_header=1, usecols=(2, 3))
        frequency = np.genfromtxt(tmp_path / "out.afreq", skip_header=1, usecols=4)
        centred = np.where(new.rows == MISSING, 0, new.rows - 2 * frequency)
        expected = model.transform(standardize(new, frequencies=rows.frequencies))
        found = centred @ table
        np.testing.assert_allclose(found - found[0], expected - expected[0], atol=1e-8)
        head = (tmp_path / "out.afreq").read_text().splitlines()[:2]
        assert head[0] == "#CHROM\tID\tREF\tALT\tALT_FREQS\tOBS_CT"
        assert head[1].split("\t")[:4] == ["7", "rs0", "C", "A"]
        with pytest.raises(ValueError, match="broadcast"):
            genetics.write_loadings(tmp_path / "out", rows, np.ones((1, 3)))
