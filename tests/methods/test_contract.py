"""What every method shares: FairPCA's face, FairPCA's errors, and no surprises."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from fairpca import FairPCA, methods
from fairpca.methods._base import number

ANY_GROUPS = {
    "ARPGDA": {"max_iter": 50},
    "BalancedPCA": {},
    "JointDiagonalPCA": {},
    "MinorizationFairPCA": {},
    "MultiCriteriaPCA": {},
    "NullSpaceFairPCA": {},
    "ParetoFairPCA": {"max_iter": 20},
    "RADA": {"n_starts": 2},
    "SDRFairPCA": {},
    "StablePCA": {},
    "WorstCasePCA": {},
}
TWO_GROUPS = {
    "ConstrainedFPCA": {},
    "CovarianceConstrainedPCA": {"mu": 0.1},
    "MMDFairPCA": {"tau": 0.5},
    "SPEA2FairPCA": {"max_iter": 3},
    "StreamingFairPCA": {},
    "UnconstrainedFPCA": {},
}
NAMES = sorted({**ANY_GROUPS, **TWO_GROUPS})
NEEDS_LABELS = [*TWO_GROUPS, "NullSpaceFairPCA", "ParetoFairPCA"]
MIN_MAX = [
    "ARPGDA", "MinorizationFairPCA", "MultiCriteriaPCA", "RADA", "SDRFairPCA", "StablePCA",
    "WorstCasePCA",
]  # fmt: skip

every_method = pytest.mark.parametrize("name", NAMES)


def make(name, n_components=2, **params):
    settings = {**ANY_GROUPS, **TWO_GROUPS}[name]
    return getattr(methods, name)(n_components, **{**settings, **params})


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    sex = rng.choice(["female", "male"], size=160, p=[0.4, 0.6])
    X = rng.normal(size=(160, 5)) * [3, 1, 2, 1, 0.5]
    X[sex == "female"] = X[sex == "female"][:, [1, 0, 3, 2, 4]] + [0, 0, 0, 0, 0.5]
    return X + 5, sex


def test_the_list_is_complete():
    assert sorted(methods.__all__) == NAMES


@every_method
def test_face(people, name):
    X, sex = people
    model = make(name)
    before = model.get_params()
    assert model.fit(X, sensitive_features=sex) is model
    assert model.get_params() == before
    U = model.components_
    np.testing.assert_allclose(U @ U.T, np.eye(2), atol=1e-9)
    np.testing.assert_allclose(model.mean_, X.mean(axis=0))
    np.testing.assert_allclose(model.transform(X), (X - X.mean(axis=0)) @ U.T)
    np.testing.assert_allclose(
        model.inverse_transform(model.transform(X)), (X - model.mean_) @ U.T @ U + model.mean_
    )
    assert model.groups_ == ["female", "male"]
    assert model.group_counts_.tolist() == [int(np.sum(sex == g)) for g in model.groups_]
    assert model.n_components_ == 2
    assert model.n_samples_ == 160
    assert model.n_features_in_ == 5
    assert model.center_ in ("group", "global", "none")
    assert model.stop_reason_
    variances = np.var(model.transform(X), axis=0, ddof=1)
    np.testing.assert_allclose(model.explained_variance_, variances)
    fair = FairPCA(2, center="group").fit(X, sensitive_features=sex)
    assert model.group_losses_.shape == model.group_errors_.shape == (2,)
    # No method serves the worst group better than the certified optimum.
    assert model.group_losses_.max() >= fair.certificate_.lower_bound - 1e-9
    names = [f"{name.lower()}{i}" for i in range(2)]
    assert model.get_feature_names_out().tolist() == names
    assert list(model.set_output(transform="pandas").transform(X).columns) == names


@every_method
def test_fit_transform_clone_pickle_and_to_sklearn(people, name):
    X, sex = people
    model = make(name).fit(X, sensitive_features=sex)
    Z = model.transform(X)
    np.testing.assert_array_equal(clone(model).fit_transform(X, sensitive_features=sex), Z)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(X), Z)
    np.testing.assert_allclose(model.to_sklearn().transform(X), Z, atol=1e-12)
    with pytest.raises(NotFittedError):
        clone(model).transform(X)


@pytest.mark.parametrize("name", MIN_MAX)
def test_certificates_enclose_the_optimum(people, name):
    X, sex = people
    model = make(name).fit(X, sensitive_features=sex)
    exact = FairPCA(2, criterion=model.criterion, center="group")
    best = exact.fit(X, sensitive_features=sex).certificate_
    assert model.certificate_.lower_bound <= best.value + 1e-9
    assert model.certificate_.value >= best.lower_bound - 1e-9
    assert model.certificate_.value == pytest.approx(model.group_values_.max())
    assert model.group_weights_.sum() == pytest.approx(1)


@every_method
def test_weights_act_like_repeated_rows(people, name):
    X, sex = people
    weight = np.random.default_rng(1).integers(1, 3, len(X))
    weighted = make(name).fit(X, sensitive_features=sex, sample_weight=weight)
    repeated = make(name).fit(
        np.repeat(X, weight, axis=0), sensitive_features=np.repeat(sex, weight)
    )
    np.testing.assert_allclose(weighted.group_losses_, repeated.group_losses_, atol=1e-6)
    np.testing.assert_allclose(weighted.components_, repeated.components_, atol=1e-4)


@every_method
def test_deterministic_and_quiet_about_the_global_generator(people, name):
    X, sex = people
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (make(name).fit(X, sensitive_features=sex) for _ in range(2))
    np.testing.assert_array_equal(first.components_, second.components_)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@every_method
def test_order_of_rows_and_names_of_groups_do_not_matter(people, name):
    X, sex = people
    order = np.random.default_rng(0).permutation(len(X))
    model = make(name).fit(X, sensitive_features=sex)
    other = make(name).fit(X[order], sensitive_features=np.where(sex == "male", 0, 1)[order])
    np.testing.assert_allclose(other.group_losses_[::-1], model.group_losses_, atol=1e-5)


@every_method
def test_frames_and_float32(people, name):
    X, sex = people
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = make(name).fit(frame, sensitive_features=pd.Series(sex))
    assert model.feature_names_in_.tolist() == list("abcde")
    assert model.transform(frame).shape == (160, 2)
    small = make(name).fit(X.astype(np.float32), sensitive_features=sex)
    assert small.transform(X.astype(np.float32)).dtype == np.float32


@every_method
def test_bad_rows_give_the_errors_of_fair_pca(people, name):
    X, sex = people
    bad = [
        (np.where(X[0, 0] == X, np.nan, X), sex, {}),
        (np.where(X[0, 0] == X, np.inf, X), sex, {}),
        (X.astype(complex), sex, {}),
        (X[:, 0], sex, {}),
        (X[:0], sex[:0], {}),
        ([["a", "b"], ["c", "d"]], [0, 1], {}),
        (X, sex[:-1], {}),
        (X, [None, *sex[1:]], {}),
        (X, sex, {"sample_weight": np.ones(3)}),
        (X, sex, {"sample_weight": -np.ones(len(X))}),
        (X, sex, {"sample_weight": np.zeros(len(X))}),
        (X, sex, {"sample_weight": (sex == "male").astype(float)}),
    ]
    for rows, labels, extra in bad:
        with pytest.raises(ValueError) as ours:
            FairPCA(2).fit(rows, sensitive_features=labels, **extra)
        with pytest.raises(ValueError) as theirs:
            make(name).fit(rows, sensitive_features=labels, **extra)
        said = str(ours.value)
        assert str(theirs.value) in (said, said.replace("FairPCA", name))


@every_method
@pytest.mark.parametrize("r", [0, 6, -1, 2.5, "2", True])
def test_bad_ranks_give_the_errors_of_fair_pca(people, name, r):
    X, sex = people
    with pytest.raises(ValueError, match=r"n_components="):
        make(name, r).fit(X, sensitive_features=sex)


@every_method
def test_one_row_is_too_few(name):
    with pytest.raises(ValueError, match=f"1 sample.*{name}|{name}.*1 sample|1 group"):
        make(name, 1).fit([[1.0, 2.0]], sensitive_features=["a"])


@pytest.mark.parametrize("name", NEEDS_LABELS)
def test_labels_are_required(people, name):
    X, _ = people
    with pytest.raises(ValueError, match=f"{name} needs sensitive_features"):
        make(name).fit(X)


@pytest.mark.parametrize("name", NEEDS_LABELS)
def test_one_group_is_not_enough(people, name):
    X, _ = people
    with pytest.raises(ValueError, match=rf"sensitive_features has 1 .* {name} "):
        make(name).fit(X, sensitive_features=np.zeros(len(X)))


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(NEEDS_LABELS)))
def test_without_labels_it_is_pca_and_says_so(people, name):
    X, _ = people
    with pytest.warns(UserWarning, match="ordinary PCA") as caught:
        model = make(name).fit(X)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    # However it is called: pipelines and wrappers of scikit-learn lie between.
    with pytest.warns(UserWarning, match="ordinary PCA") as caught:
        make_pipeline(make(name)).fit_transform(X)
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(UserWarning, match="ordinary PCA") as caught:
        make_pipeline(make(name), PCA(1)).fit(X)
    assert [warning.filename for warning in caught] == [__file__]
    pca = PCA(2).fit(X)
    np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=1e-7)


@pytest.mark.parametrize("name", TWO_GROUPS)
@pytest.mark.parametrize("k", [3, 5])
def test_two_groups_only(people, name, k):
    X, _ = people
    match = f"has {k} groups and {name} is written for two"
    with pytest.raises(ValueError, match=match):
        make(name).fit(X, sensitive_features=np.arange(len(X)) % k)


@pytest.mark.parametrize("name", ANY_GROUPS)
def test_several_columns_of_labels(people, name):
    X, sex = people
    other = np.random.default_rng(0).integers(0, 2, len(X))
    model = make(name, 1).fit(X, sensitive_features={"sex": sex, "other": other})
    assert model.groups_ == [("female", 0), ("female", 1), ("male", 0), ("male", 1)]
    assert model.group_losses_.shape == (4,)


@every_method
def test_all_components_lose_nothing(people, name):
    X, sex = people
    most = 5 if name not in ("NullSpaceFairPCA", "StreamingFairPCA") else None
    if name == "CovarianceConstrainedPCA":
        most = None
    tau = {"tau": 0.9} if name == "MMDFairPCA" else {}
    model = make(name, most, **tau).fit(X, sensitive_features=sex)
    if most is None:
        assert model.n_components_ == 4
        return
    assert model.group_losses_.max() < 1e-9


BAD_PARAMETERS = {
    "criterion": ["best"], "solver": ["fast"], "center": ["middle"], "tol": [0, 2],
    "eta": [-1, "x", np.inf], "max_iter": [0], "n_starts": [0, "x", 1.5], "beta": [0, np.inf],
    "rho": [0, [1]], "inner_steps": [0, 1e9], "penalty": ["cubic"], "floor": [2, None],
    "step": ["long"], "start": ["here"], "mu": [-1, "x"], "search": ["random"],
    "selection": ["best"], "population": [1, None], "delta": [-1], "tau": [0, None],
    "bandwidth": [-1, "x"], "max_rows": [0, np.nan], "n_directions": [-1, 1e9],
    "learning_blocks": [0, "x"], "disparity_weight": [-1, np.nan], "order": ["none"],
    "n_kept_directions": [0, "x", 1e9], "variant": ["minpca"], "prove": [0, "yes"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        (name, parameter, value)
        for name in NAMES
        for parameter in make(name).get_params()
        for value in BAD_PARAMETERS.get(parameter, [])
    ],
)
def test_bad_parameters_are_named(people, name, parameter, value):
    X, sex = people
    model = make(name).set_params(**{parameter: value})
    with pytest.raises(ValueError, match=f"^{parameter}="):
        model.fit(X, sensitive_features=sex)


@pytest.mark.parametrize("name", NAMES)
def test_a_refused_fit_leaves_the_fit_before(people, name):
    X, group = people
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    model = make(name)
    with pytest.raises(ValueError):
        model.fit(frame, sensitive_features=group[:10])
    with pytest.raises(NotFittedError):
        model.transform(frame)
    model.fit(frame, sensitive_features=group)
    before = model.transform(frame)
    with pytest.raises(ValueError):
        model.fit(frame.iloc[:, ::-1], sensitive_features=group[:10])
    np.testing.assert_array_equal(model.transform(frame), before)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame.iloc[:, ::-1])


def test_a_whole_number_is_told_by_its_annotation_in_any_module(people):
    """Annotations are not postponed here, and 2.5 was taken for an integer."""

    class Repeated(methods.BalancedPCA):
        times: int = number(1, 1)
        share: float = number(0.5, 0, 1)

    X, sex = people
    with pytest.raises(ValueError, match=r"^times=2\.5 .* and an integer"):
        Repeated(times=2.5).fit(X, sensitive_features=sex)
    assert Repeated(times=2, share=0.3).fit(X, sensitive_features=sex).n_components_ == X.shape[1]
