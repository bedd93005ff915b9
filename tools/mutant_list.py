"""The deliberate breakages: what is changed, and which tests must notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutant:
    """One breakage: in `file`, `old` becomes `new`; `tests` are pytest arguments."""

    name: str
    file: str
    old: str
    new: str
    tests: str

    def apply(self, root: Path) -> str:
        """Return the broken text; raise ValueError if the mutant no longer fits the file."""
        text = (root / "src" / "fairpca" / self.file).read_text()
        found = text.count(self.old)
        if found != 1:
            raise ValueError(
                f"mutant {self.name!r} is stale: its old text occurs {found} times in "
                f"src/fairpca/{self.file}; choose a line that is there once."
            )
        broken = text.replace(self.old, self.new)
        compile(broken, self.file, "exec")
        return broken

    def complaint(self, root: Path) -> str:
        """Return what keeps the mutant from being run, or an empty text."""
        tests = self.tests.partition(" ")[0]
        if not (root / tests).is_file():
            return f"mutant {self.name!r} names tests that are not there: {tests}."
        try:
            self.apply(root)
        except (OSError, ValueError, SyntaxError) as error:
            return str(error)
        return ""


GENERATED = "tests/trust/test_generated.py -k"
BASIS = f"{GENERATED} basis_and_certificate"
DEFINITION = f"{GENERATED} definition"
MOMENTS = "tests/moments/test_group_moments.py"
LABELS = "tests/moments/test_groups.py"
DENSE = "tests/covariances/test_dense.py"
WIDE = "tests/covariances/test_wide_and_sparse.py -k"
MANY = "tests/solvers/test_many_groups.py -k"
CERTIFICATE = "tests/solvers/test_certificate.py"
TORTURE = "tests/trust/test_torture.py -k"
STORED = "tests/trust/test_stored.py"
WRONG = "tests/trust/test_wrong_input.py"
ESTIMATOR = "tests/test_estimator.py -k"

MUTANTS = (
    # Rows to moments.
    Mutant(
        "rows are not centred",
        "moments/row_scatter.py",
        "    block -= means[0]\n",
        "",
        MOMENTS,
    ),
    Mutant(
        "weights are squared",
        "moments/row_scatter.py",
        "block *= np.sqrt(weights)[:, None]",
        "block *= weights[:, None]",
        MOMENTS,
    ),
    Mutant(
        "what rounding left of a mean stays in the squares",
        "moments/row_scatter.py",
        "np.dot(between.T, between) - np.dot(rest.T, rest)",
        "np.dot(between.T, between)",
        MOMENTS,
    ),
    Mutant(
        "rows that are stored column by column are copied whole for every block",
        "moments/row_scatter.py",
        "plain = isinstance(rows, np.ndarray) and rows.flags.c_contiguous",
        "plain = isinstance(rows, np.ndarray)",
        MOMENTS,
    ),
    Mutant(
        "sparse columns far from zero are centred after squaring",
        "moments/sparse_scatter.py",
        "dense = np.flatnonzero(total * middle**2 > _LARGE_MEAN * square)",
        "dense = np.flatnonzero(total * middle**2 > 2 * square)",
        "tests/moments/test_sparse_scatter.py",
    ),
    Mutant(
        "a merge drops the term between means",
        "moments/group_moments.py",
        "scatter += between[:, :, None] * between[:, None, :]",
        "scatter += 0.0",
        MOMENTS,
    ),
    Mutant(
        "a merge moves the mean the wrong way",
        "moments/row_scatter.py",
        "way = shift * np.where(",
        "way = -shift * np.where(",
        MOMENTS,
    ),
    Mutant(
        "the total forgets the variance between groups",
        "moments/group_moments.py",
        "scatter += apart.T @ apart",
        "scatter += 0.0",
        MOMENTS,
    ),
    Mutant(
        "covariances divide by rows, not by weight",
        "moments/group_moments.py",
        "safe = np.where(self.weight > 0, self.weight, 1.0)",
        "safe = np.maximum(self.count, 1)",
        DEFINITION,
    ),
    Mutant(
        "a file of the same format is refused",
        "moments/storage.py",
        'if header["format"] > _FORMAT:',
        'if header["format"] >= _FORMAT:',
        STORED,
    ),
    Mutant(
        "labels are not sorted",
        "moments/label_codes.py",
        "return sorted(labels)  #",
        "return labels  #",
        LABELS,
    ),
    Mutant(
        "a text label seen late takes the code of another",
        "moments/label_codes.py",
        "places[others] = rare + len(texts)",
        "places[others] = rare",
        LABELS,
    ),
    Mutant(
        "negative weights pass",
        "_checks.py",
        "(weights < 0).any()",
        "(weights < -9).any()",
        f"{ESTIMATOR} bad_input",
    ),
    # Criteria and the problem.
    Mutant(
        "shares of twice the variance",
        "criteria.py",
        "np.divide(1.0, traces,",
        "np.divide(2.0, traces,",
        DEFINITION,
    ),
    Mutant(
        "variance counted from one",
        "criteria.py",
        "return np.zeros(len(traces))",
        "return np.ones(len(traces))",
        DEFINITION,
    ),
    Mutant(
        "units the wrong way",
        "criteria.py",
        "2.0 ** -np.clip",
        "2.0 ** np.clip",
        f"{TORTURE} any_unit",
    ),
    Mutant(
        "losses with the wrong sign",
        "solvers/problem.py",
        "return self.offsets - self.oracle.retained_variance(basis)",
        "return self.offsets + self.oracle.retained_variance(basis)",
        BASIS,
    ),
    Mutant(
        "one eigenvalue too few in the dual function",
        "solvers/problem.py",
        "pairs.values[: self.n_components].sum()",
        "pairs.values[: self.n_components - 1].sum()",
        "tests/solvers/test_many_group_parts.py",
    ),
    # The certificate.
    Mutant(
        "one eigenvalue too few in the proven sum",
        "covariances/spectral_bounds.py",
        "np.sort(values)[n - r :].sum()",
        "np.sort(values)[n - r + 1 :].sum()",
        BASIS,
    ),
    Mutant(
        "optimal means within a hundredth",
        "solvers/solution.py",
        "OPTIMAL_GAP = 1e-8",
        "OPTIMAL_GAP = 1e-2",
        CERTIFICATE,
    ),
    Mutant(
        "rounding a million times too large",
        "_linalg.py",
        "return 8 * math.sqrt(n_features + 6)",
        "return 8e6 * math.sqrt(n_features)",
        f"{TORTURE} fifty",
    ),
    Mutant(
        "every gap is closed",
        "solvers/solution.py",
        "gap = 0.0 if difference <= resolution else",
        "gap = 0.0 if difference <= np.inf else",
        f"{MANY} evenly_spaced",
    ),
    # Solvers.
    Mutant(
        "phi' with the wrong sign",
        "solvers/two_groups.py",
        "slope = self.delta - float(xp.sum(basis * image[:, :r]))",
        "slope = -self.delta + float(xp.sum(basis * image[:, :r]))",
        BASIS,
    ),
    Mutant(
        "groups swapped in the weights",
        "solvers/two_groups.py",
        "np.array([best.proof, 1 - best.proof])",
        "np.array([1 - best.proof, best.proof])",
        BASIS,
    ),
    Mutant(
        "the worst group carries no weight",
        "solvers/__init__.py",
        "weights[np.argmax(losses)] = 1.0",
        "weights[np.argmin(losses)] = 1.0",
        BASIS,
    ),
    Mutant(
        "a bound is not lowered by the residual",
        "covariances/eigenpairs.py",
        "return EigenPairs(values + residual, vectors)",
        "return EigenPairs(values, vectors)",
        DENSE,
    ),
    Mutant(
        "a bound in a shared space is not lowered by the residuals",
        "covariances/block_krylov.py",
        "return EigenPairs(self.raised(r), self.vectors[:, :r])",
        "return EigenPairs(self.values[:r], self.vectors[:, :r])",
        "tests/covariances/test_streamed.py -k raised_values",
    ),
    Mutant(
        "eigenvectors in the other order",
        "covariances/eigenpairs.py",
        "np.ascontiguousarray(vectors[:, ::-1])",
        "np.ascontiguousarray(vectors)",
        BASIS,
    ),
    Mutant(
        "the curvature of phi is halved",
        "solvers/dual.py",
        "return np.asarray(2.0 * couplings @ self.rotations.T)",
        "return np.asarray(couplings @ self.rotations.T)",
        "tests/solvers/test_many_group_parts.py",
    ),
    Mutant(
        "a thin factor for matrices of any rank",
        "covariances/eigenpairs.py",
        "if found > rank or ",
        "if ",
        "tests/covariances/test_thin_factor.py",
    ),
    Mutant(
        "the paper's search stops early",
        "solvers/paper.py",
        '"xatol": tol,',
        '"xatol": 1e7 * tol,',
        "tests/trust/test_agreement.py -k every_road",
    ),
    # From a solution to an estimator.
    Mutant(
        "signs the other way",
        "_linalg.py",
        "np.where(signs == 0, 1.0, signs)",
        "-np.where(signs == 0, 1.0, signs)",
        f"{ESTIMATOR} read_like",
    ),
    Mutant(
        "transform centres on the new rows",
        "base.py",
        "(X - self.mean_) @",
        "(X - X.mean(axis=0)) @",
        f"{ESTIMATOR} transform",
    ),
    Mutant(
        "the way back forgets the mean",
        "base.py",
        "return (Z @ rows + self.mean_)",
        "return (Z @ rows)",
        f"{ESTIMATOR} inverts",
    ),
    Mutant(
        "components chosen at will keep rows left out",
        "cross_fitting.py",
        "seen_part(model.components_.T, seen)",
        "model.components_.T",
        "tests/test_cross_fitting.py -k TestMoreComponentsThanRows",
    ),
    Mutant(
        "variances divide by all rows",
        "base.py",
        "freedom = total.weight - 1 / unit or total.weight",
        "freedom = total.weight",
        f"{GENERATED} one_group",
    ),
    Mutant(
        "losses counted as kept",
        "fitting.py",
        "retained = own - losses",
        "retained = own + losses",
        DEFINITION,
    ),
    Mutant(
        "a share is nearly kept",
        "fitting.py",
        "return share * (1 - 1e-12)",
        "return share * (1 - 1e-1)",
        f"{ESTIMATOR} fractional",
    ),
    Mutant(
        "partial_fit forgets earlier rows",
        "estimator.py",
        "moments if seen is None else seen.on_host().merge(moments)",
        "moments",
        f"{ESTIMATOR} partial_fit",
    ),
    Mutant(
        "a failed fit forgets the old one",
        "base.py",
        "            self.__dict__.update(before)\n",
        "",
        WRONG,
    ),
    Mutant(
        "products forget the weights",
        "covariances/implicit.py",
        "centred *= shares[:, None]",
        "centred *= 1.0 / len(shares)",
        f"{WIDE} products_only",
    ),
    Mutant(
        "wide rows forget the distances between groups",
        "covariances/sources.py",
        "replace(moments, mean=np.asarray(shifts))",
        "moments",
        f"{WIDE} row_space",
    ),
    # Files.
    Mutant(
        "any type is trusted",
        "persistence.py",
        "return found - set(TRUSTED_TYPES)",
        "return set()",
        STORED,
    ),
    Mutant(
        "an unfinished file stays",
        "moments/storage.py",
        "            os.unlink(name)\n",
        "            pass\n",
        WRONG,
    ),
)
