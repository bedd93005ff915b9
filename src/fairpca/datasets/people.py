"""Bank Marketing, Default of Credit Card Clients, Adult and COMPAS: tables about people.

The clients of the two banks are coded as numbers, as the authors of Fair PCA have them. Of the
records from the United States, categories are 0/1 columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from fairpca._check import check_choice
from fairpca._arrays import AnyArray, IntArray
from fairpca.datasets.cache import Remote, need
from fairpca.datasets.loading import UCI, Source, Table, check_digest, digest, expect, open_member

# Where GitHub publishes files, and there the authors of Fair PCA.
GITHUB = "https://raw.githubusercontent.com/"
AUTHORS = GITHUB + "JunhuiShen/Fair-PCA-via-EigOpt/ea74a195001dc5491ea437b158daba0516d69f51/"

# The columns of every form of the bank's file, in their order.
_BANK_NAMES = (
    "age job marital education default balance housing loan contact day month duration campaign "
    "pdays previous poutcome y"
).split()
# The texts of UCI's file; the number of a text is its position, from 1, as the authors have it.
_BANK_LEVELS = {
    "job": "management technician entrepreneur blue-collar unknown retired admin. services "
    "self-employed unemployed housemaid student".split(),
    "marital": ["married", "single", "divorced"],
    "education": ["primary", "secondary", "tertiary", "unknown"],
    "contact": ["cellular", "telephone", "unknown"],
    "month": "jan feb mar apr may jun jul aug sep oct nov dec".split(),
    "poutcome": ["success", "failure", "other", "unknown"],
}
# The columns with "no" and "yes", coded 0 and 1.
_YES_NO = ("default", "housing", "loan", "y")
# Rows of the whole table, as UCI documents it, and of a sample that UCI calls bank.csv, too.
_BANK_ROWS, _SAMPLE_ROWS = 45211, 4521
# SHA-256 of the authors' file, and of its values, whichever file they are read from.
_BANK_SHA256 = "bde995d7cb02f5c72b7d5782437c8e2c2cde443fba21d7513cdfa0556adb5440"
_BANK_DIGEST = "f345b000488de23609911b89e287684e55dcc62741b390def9672e0143b8d514"

# The columns of the authors' credit file after its row number, in their order.
_CREDIT_NAMES = (
    "EDUCATION", "SEX", "LIMIT_BAL", "MARRIAGE", "AGE",
    *(f"{name}{j}" for name in ("PAY_", "BILL_AMT", "PAY_AMT") for j in range(1, 7)),
    "default payment next month",
)  # fmt: skip
# Other names of the same columns, in UCI's spreadsheet and in copies of it.
_SAME = dict.fromkeys(("default.payment.next.month", "Y"), _CREDIT_NAMES[-1]) | {"PAY_0": "PAY_1"}
# What the codes 1, 2, ... mean; every other code is "other".
_CREDIT_LEVELS = {
    "education": ("graduate school", "university", "high school"),
    "sex": ("male", "female"),
    "marriage": ("married", "single"),
}
# Rows as UCI documents them; SHA-256 of the authors' file, and of its values in this order.
_CREDIT_ROWS = 30000
_CREDIT_SHA256 = "c58f7df737cb7953d9022cf9487cf8001c0417ae97bd308301ad733f20c88fc3"
_CREDIT_DIGEST = "ce64e83dfa1d7e287f7252230d9cbbec53abb927da316ac58ea56b6f4d5a1939"

# The columns of both files of Adult, in their order; the files have no header.
_ADULT_NAMES = (
    "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
    "capital-gain capital-loss hours-per-week native-country income"
).split()
# The features of Adult: numbers as they are, categories as 0/1 columns.
_ADULT_NUMERIC = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
_ADULT_CATEGORICAL = (
    "sex race workclass marital-status occupation relationship native-country".split()
)
# SHA-256 of the members of UCI's archive, which was packed anew more than once. Recorded by
# several public projects that pin these two files; not computed by us.
_ADULT_MEMBERS = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}
# Rows of each file as UCI documents them. A truncated file is told by its number of rows.
_ADULT_ROWS = {"adult.data": 32561, "adult.test": 16281}

# Columns of ProPublica's file that are features as they are, and the others that are needed.
_COMPAS_NUMERIC = ["age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"]
_COMPAS_OTHERS = (
    "sex race c_charge_degree two_year_recid days_b_screening_arrest is_recid score_text".split()
)
# Rows of ProPublica's file before the filter.
_COMPAS_ROWS = 7214
# The features of the splits, in the order of their columns; the label and the group follow.
_SPLIT_NAMES = (
    "age", "race", *_COMPAS_NUMERIC[1:], "age_cat=25 - 45", "age_cat=Greater than 45",
    "age_cat=Less than 25", "c_charge_degree=F", "c_charge_degree=M",
)  # fmt: skip
# Rows of each part of a split: 70 % and 30 % of 2,468.
_SPLIT_ROWS = {"train": 1727, "test": 741}
# Where the authors publish the parts as text, at a fixed commit.
_SPLIT_URL = GITHUB + "nick-jhlee/fair-manifold-pca/888245a1e0c7d294bc8244164b79b6ddcb08ce72/"
# The first twelve digits of the SHA-256 of the values of the parts of splits 0 to 9, the same
# for the text files and for an archive of them. A part with other values is refused.
_SPLIT_DIGESTS = {
    "train": "ed1d8e2a067e 6e7233d82b08 bccdfccd1af4 62d937d3b3e6 fe1991db7fea "
    "83c3352b1ee6 1192fb153a6b b7da85289967 f922f3df7cce 1d4035eeda19".split(),
    "test": "7ef54a9d2f6f ae66c0755e7c 4d4717051905 9bddf626bc44 0a124a6498a2 "
    "5e1d1539f4a3 a097f8c2f501 4105ea3e0db3 a32221ae5879 bd36837dbc7a".split(),
}


def _paper(table: Table, in_a: AnyArray, meaning: tuple[str, str]) -> Table:
    """Return every column but the first, which makes the groups, and the target, standardised."""
    data = np.column_stack([table.data[:, 1:], table.target])  # type: ignore[list-item]
    names = [*table.feature_names[1:], table.target_name]
    return table.as_in_paper(in_a, meaning, data, names).standardised()


def _read_bank(path: Path) -> Table:
    """Return the table from any of the accepted files."""
    with open_member(path, "bank-full.csv") as file:
        codes = _read_codes(file, path)
    wanted = (_BANK_ROWS, len(_BANK_NAMES))
    expect(codes.shape == wanted, path, f"its shape is {codes.shape} instead of {wanted}")
    check_digest(_BANK_DIGEST, path, codes)
    groupings = {"age": np.where(codes[:, 0] >= 65, "65 or older", "under 65")}
    for name in ("marital", "education", "job"):
        groupings[name] = np.array(_BANK_LEVELS[name])[codes[:, _BANK_NAMES.index(name)] - 1]
    data = codes[:, :-1].astype(float)
    return Table(data, _BANK_NAMES[:-1], groupings, target=codes[:, -1], target_name="y")


def _read_codes(file: IO[bytes], path: Path) -> IntArray:
    """Return 17 integer columns, from the authors' numbers or from UCI's texts."""
    start = file.read(6)
    file.seek(0)
    if not start.startswith((b'"age"', b"age;")):
        return np.loadtxt(file, delimiter=",", dtype=np.int64, ndmin=2)
    frame = need("pandas").read_csv(file, sep=";")
    expect(list(frame.columns) == _BANK_NAMES, path, f"its columns are {list(frame.columns)}")
    sample = "this is the 10 % sample that UCI also calls bank.csv; use bank-full.csv"
    expect(len(frame) != _SAMPLE_ROWS, path, sample)
    for name, levels in {**_BANK_LEVELS, **{key: ["no", "yes"] for key in _YES_NO}}.items():
        unknown = set(frame[name]) - set(levels)
        expect(not unknown, path, f"column {name!r} has the unknown value(s) {sorted(unknown)}")
        first = 0 if name in _YES_NO else 1
        frame[name] = frame[name].map({level: i for i, level in enumerate(levels, first)})
    # pandas stores columns. Sums over rows in another order would differ in the last digit.
    return np.ascontiguousarray(frame.to_numpy(dtype=np.int64))


_BANK = Source(
    accepted=("bank.csv", "bank-full.csv", "bank+marketing.zip", "bank.zip"),
    remotes=(
        Remote("bank.csv", f"{AUTHORS}bank.csv", sha256=_BANK_SHA256),
        Remote("bank+marketing.zip", f"{UCI}222/bank+marketing.zip", check=_read_bank),
    ),
    read=_read_bank,
    paper=lambda table: _paper(table, table.data[:, 0] >= 65, ("age >= 65", "age < 65")),
)


def fetch_bank_marketing(
    *,
    variant: str = "default",
    sensitive: str | Sequence[str] | None = "age",
    data_home: str | Path | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Load the Bank Marketing calls, grouped by age.

    45,211 phone calls of direct-marketing campaigns of a Portuguese bank, May 2008 to November
    2010, in order of date; the target is whether the client then subscribed to a term deposit
    (5,289 did). S. Moro, P. Cortez and P. Rita, "A data-driven approach to predict the success of
    bank telemarketing", Decision Support Systems 62 (2014). UCI Machine Learning Repository, data
    set 222, CC BY 4.0. Rows are calls, not people: a client called in two campaigns appears twice.

    The text columns are numbers here, as in the file of the Fair PCA authors: job 1-12 in order of
    first appearance, marital 1 married 2 single 3 divorced, education 1-3 (4 unknown), contact
    1 cellular 2 telephone 3 unknown, month 1-12, poutcome 1 success 2 failure 3 other 4 unknown,
    yes/no 1/0. `pdays` is -1 for clients never contacted before.

    variant="paper": the 15 columns beside the age *and the target* (16 features), standardised
    over all rows, groups A (age >= 65) and B, as in the authors' scripts.

    Accepted files: `bank.csv` as the Fair PCA authors publish it, or `bank-full.csv`, `bank.zip`
    or `bank+marketing.zip` of the UCI repository. Values that differ from the authors' warn.

    What is questionable:

    * The groups of the Fair PCA literature are "65 or older" (810 calls, 1.8 %) and "under 65".
      The paper's text calls the 810 "younger"; its code takes age >= 65. Earlier versions of that
      code had A and B the other way round.
    * Codes of job, contact, month and poutcome have no order; PCA reads them as if they had.
    * `duration`, the length of the call, is known only once the outcome is: it leaks the target.
    * Age is the group and is dropped; retirement shows in `job` all the same.

    Parameters
    ----------
    variant : {"default", "paper"}, default="default"
        "default" drops the target and the group column, "paper" is described above.
    sensitive : {"age", "marital", "education", "job"}, several of them, or None, default="age"
        What makes the groups. None keeps all columns and makes no groups. Ignored by "paper".
    data_home, download_if_missing, return_X_y, as_frame
        As in all loaders, and so is the Bunch that is returned: see `fairpca.datasets`.

    Examples
    --------
    >>> from fairpca.datasets import fetch_bank_marketing
    >>> calls = fetch_bank_marketing()
    >>> calls.data.shape, int((calls.sensitive_features == "65 or older").sum())
    ((45211, 15), 810)
    """
    options = (data_home, download_if_missing, return_X_y, as_frame)
    return _BANK.load(fetch_bank_marketing, sensitive, variant, *options)


def _read_credit(path: Path) -> Table:
    """Return the table with the authors' order of columns, found by name."""
    names: list[str] = []
    with open(path, encoding="utf-8-sig") as file:
        # The names are in the first or the second line, depending on the copy.
        for skip, line in enumerate(file, start=1):
            names = [name.strip().strip('"') for name in line.split(",")]
            if "EDUCATION" in names or skip == 3:
                break
    names = [_SAME.get(name, name) for name in names]
    missing = [name for name in _CREDIT_NAMES if name not in names]
    expect(not missing, path, f"it has no column {', '.join(missing)}")
    order = [names.index(name) for name in _CREDIT_NAMES]
    # Read as floats: some copies write whole numbers as 20000.0.
    values = np.loadtxt(path, delimiter=",", skiprows=skip, ndmin=2, encoding="utf-8-sig")
    expect(len(values) == _CREDIT_ROWS, path, f"{len(values)} rows instead of {_CREDIT_ROWS}")
    expect(np.isfinite(values).all(), path, "it has missing values")
    # `values[:, order]` would be in Fortran order, and sums over rows differ in the last digit.
    codes = np.take(values, order, axis=1).astype(np.int64)
    check_digest(_CREDIT_DIGEST, path, codes)
    groupings = {}
    for name, levels in _CREDIT_LEVELS.items():
        column = codes[:, _CREDIT_NAMES.index(name.upper())]
        known = (column >= 1) & (column <= len(levels))
        groupings[name] = np.array(("other", *levels))[np.where(known, column, 0)]
    *features, target = _CREDIT_NAMES
    data = codes[:, :-1].astype(float)
    return Table(data, features, groupings, target=codes[:, -1], target_name=target)


_CREDIT = Source(
    accepted=(
        "default_degree.csv",
        "default of credit card clients.csv",
        "default_of_credit_card_clients.csv",
        "UCI_Credit_Card.csv",
    ),
    remotes=(Remote("default_degree.csv", f"{AUTHORS}default_degree.csv", sha256=_CREDIT_SHA256),),
    read=_read_credit,
    paper=lambda table: _paper(table, table.data[:, 0] <= 1, ("EDUCATION <= 1", "EDUCATION > 1")),
)


def fetch_credit_default(
    *,
    variant: str = "default",
    sensitive: str | Sequence[str] | None = "education",
    data_home: str | Path | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Load the credit card clients, grouped by education.

    30,000 credit card holders of a bank in Taiwan, October 2005: credit limit, sex, education,
    marital status, age, six months of repayment status, bills and payments (New Taiwan dollars);
    the target is default in the next month (6,636 did). I.-C. Yeh and C.-H. Lien, "The comparisons
    of data mining techniques for the predictive accuracy of probability of default of credit card
    clients", Expert Systems with Applications 36 (2009). UCI Machine Learning Repository, data set
    350, CC BY 4.0.

    Education: 1 graduate school (10,585), 2 university (14,030), 3 high school (4,917), 4 others
    (123); the codes 0 (14), 5 (280) and 6 (51) are documented nowhere and are "other" here.

    variant="paper": the 22 columns beside the education *and the target* (23 features),
    standardised over all rows, groups A (EDUCATION <= 1) and B, as in the authors' scripts.

    Accepted files: `default_degree.csv` of the Fair PCA authors, or UCI's spreadsheet as CSV.

    What is questionable:

    * The Fair PCA paper splits by EDUCATION <= 1, so 14 people of the undocumented code 0 count as
      graduates. A are the graduates (10,599); comments in the code call A "low education".
    * Repayment codes -2 and 0 are undocumented; PAY_1 is called PAY_0 in the original file.
    * SEX, MARRIAGE and PAY_* are codes that PCA reads as numbers.
    * Everybody here was granted a card: those refused are not in the table.

    Parameters
    ----------
    variant : {"default", "paper"}, default="default"
        "default" drops the target and the group column, "paper" is described above.
    sensitive : {"education", "sex", "marriage"}, several of them, or None, default="education"
        What makes the groups. None keeps all columns and makes no groups. Ignored by "paper".
    data_home, download_if_missing, return_X_y, as_frame
        As in all loaders, and so is the Bunch that is returned: see `fairpca.datasets`.

    Examples
    --------
    >>> from fairpca.datasets import fetch_credit_default
    >>> clients = fetch_credit_default(sensitive=["education", "sex"])
    >>> clients.data.shape, clients.sensitive_features.shape
    ((30000, 21), (30000, 2))
    """
    options = (data_home, download_if_missing, return_X_y, as_frame)
    return _CREDIT.load(fetch_credit_default, sensitive, variant, *options)


def _one_hot(
    frame: Any, numeric: Sequence[str], categorical: Sequence[str], target: Any, **extras: Any
) -> Table:
    """Return people with columns ``column=level`` for categories, grouped by race or sex."""
    features, levels = frame[[*numeric, *categorical]], list(categorical)
    coded = need("pandas").get_dummies(features, columns=levels, prefix_sep="=")
    # Of the two levels of the sex one column says everything; both would count it twice.
    coded = coded.drop(columns="sex=Female", errors="ignore")
    groupings = {name: frame[name].to_numpy().astype(str) for name in ("race", "sex")}
    data, codes = coded.to_numpy(dtype=float), target.to_numpy().astype(np.int64)
    return Table(data, list(coded.columns), groupings, codes, target.name, extras)


def _read_adult(path: Path) -> Table:
    """Return both files as one table, from the archive or from two files side by side."""
    pd = need("pandas")
    parts = []
    if path.suffix != ".zip":
        expect((path.parent / "adult.test").exists(), path, "adult.test must lie beside it")
    for name, rows in _ADULT_ROWS.items():
        with open_member(path if path.suffix == ".zip" else path.parent / name, name) as file:
            # The test file opens with a comment line and ends its labels with a full stop.
            part = pd.read_csv(file, names=_ADULT_NAMES, comment="|", skipinitialspace=True)
        expect(part.shape == (rows, len(_ADULT_NAMES)), path, f"{name} has shape {part.shape}")
        expect(not part["income"].isna().any(), path, f"{name} has rows without a label")
        parts.append(part)
    frame = pd.concat(parts, ignore_index=True)
    weight = frame["fnlwgt"].to_numpy().astype(float)
    rich = frame["income"].str.startswith(">")
    return _one_hot(frame, _ADULT_NUMERIC, _ADULT_CATEGORICAL, rich, sample_weight=weight)


def _check_adult(path: Path) -> None:
    """Raise ValueError unless the members of an archive have the recorded checksums."""
    for name, expected in _ADULT_MEMBERS.items():
        with open_member(path, name) as file:
            found = hashlib.sha256(file.read()).hexdigest()
        expect(found == expected, path, f"{name} has SHA-256 {found}, not {expected}")


_ADULT = Source(
    accepted=("adult.data", "adult.zip"),
    remotes=(Remote("adult.zip", f"{UCI}2/adult.zip", check=_check_adult),),
    read=_read_adult,
)


def fetch_adult(
    *,
    sensitive: str | Sequence[str] | None = "sex",
    data_home: str | Path | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Load the Adult census sample, grouped by sex.

    48,842 people of the US Current Population Survey of 1994: age, work, education, family,
    origin, capital gains, hours; the target is an income above 50,000 dollars (11,687 have it).
    B. Becker and R. Kohavi (1996), also known as Census Income, UCI Machine Learning Repository,
    data set 2, CC BY 4.0.

    Categories become 0/1 columns named ``column=level``; a missing value ("?") is a level of its
    own. `education` repeats `education-num` and is left out. `fnlwgt`, how many people a row
    stands for, is no feature: it is in `sample_weight`, which FairPCA accepts.

    Accepted files: `adult.zip` of the UCI repository, or `adult.data` and `adult.test` from it.

    What is questionable:

    * The threshold was the 76th percentile of 1994, and about the 88th of Black and the 89th of
      female respondents: results of fairness methods depend on it. Ding, Hardt, Miller and
      Schmidt, "Retiring Adult" (2021), recommend newer tables.
    * Only people with some income and some hours of work were kept.
    * Sex is binary; race has five levels, of which "Other" and "Amer-Indian-Eskimo" are below 1 %.

    Parameters
    ----------
    sensitive : {"sex", "race"}, both, or None, default="sex"
        What makes the groups. None keeps all columns and makes no groups.
    data_home, download_if_missing, return_X_y, as_frame
        As in all loaders, and so is the Bunch that is returned: see `fairpca.datasets`.

    Examples
    --------
    >>> from fairpca.datasets import fetch_adult
    >>> fetch_adult(sensitive="race").data.shape[0]  # doctest: +SKIP
    48842
    """
    options = (data_home, download_if_missing, return_X_y, as_frame)
    return _ADULT.load(fetch_adult, sensitive, "default", *options)


def _read_compas(path: Path) -> Table:
    """Return ProPublica's table after ProPublica's filter."""
    frame = need("pandas").read_csv(path)
    missing = {*_COMPAS_NUMERIC, *_COMPAS_OTHERS} - set(frame.columns)
    expect(not missing, path, f"it has no column {', '.join(sorted(missing))}")
    expect(len(frame) == _COMPAS_ROWS, path, f"{len(frame)} rows instead of {_COMPAS_ROWS}")
    keep = (
        frame["days_b_screening_arrest"].between(-30, 30)
        & (frame["is_recid"] != -1)
        & (frame["c_charge_degree"] != "O")
        # pandas reads "N/A" as a missing value.
        & frame["score_text"].notna()
    )
    frame = frame[keep].reset_index(drop=True)
    frame["felony"] = frame["c_charge_degree"] == "F"
    numeric = [*_COMPAS_NUMERIC, "felony"]
    return _one_hot(frame, numeric, ("sex", "race"), frame["two_year_recid"])


_COMPAS = Source(
    accepted=("compas-scores-two-years.csv",),
    remotes=(
        Remote(
            "compas-scores-two-years.csv",
            f"{GITHUB}propublica/compas-analysis/bafff5da3f2e45eca6c2d5055faad269defd135a/"
            "compas-scores-two-years.csv",
            # Recorded by several public projects that pin this file; not computed by us.
            sha256="c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
        ),
    ),
    read=_read_compas,
)


def _split_source(split: int, subset: str) -> Source:
    """Return the source of one part of one split: one archive of all parts, or its text file."""
    name = f"{subset}_{split}"

    def read(path: Path) -> Table:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                values = file[name]
        else:
            values = np.loadtxt(path, delimiter=",")
        wanted = (_SPLIT_ROWS[subset], len(_SPLIT_NAMES) + 2)
        expect(values.shape == wanted, path, f"{name} has shape {values.shape}, not {wanted}")
        right = digest(values).startswith(_SPLIT_DIGESTS[subset][split])
        expect(right, path, f"some values of {name} differ from the published ones")
        return Table(
            values[:, :-2],
            _SPLIT_NAMES,
            {"race": np.where(values[:, -1] == 1, "Caucasian", "other")},
            target=values[:, -2].astype(np.int64),
            target_name="two_year_recid",
            keep_groups=True,
        )

    text = f"compas_splits/{name}.csv"
    remote = Remote(text, f"{_SPLIT_URL}datasets/COMPAS/{name}.csv", check=read)
    return Source(accepted=("compas_splits.npz", text), remotes=(remote,), read=read)


def fetch_compas(
    *,
    variant: str = "default",
    sensitive: str | Sequence[str] | None = "race",
    split: int = 0,
    subset: str = "train",
    data_home: str | Path | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Load the COMPAS records, grouped by race.

    People scored by the COMPAS risk tool in Broward County, Florida, in 2013 and 2014, and whether
    they were arrested again within two years; published by ProPublica (J. Angwin, J. Larson,
    S. Mattu and L. Kirchner, "Machine Bias", 2016), whose terms apply; do not redistribute.

    variant="default": 6,172 of 7,214 rows after ProPublica's own filter (scored within 30 days of
    the arrest, no missing outcome, no ordinary traffic offence, a score is given). Features: age,
    earlier offences, degree of the charge, sex, race (0/1 columns). The score is no feature.

    variant="splits": the ten train/test splits of J. Lee, G. Kim, M. Olfat, M. Hasegawa-Johnson
    and C. D. Yoo, "Fast and Efficient MMD-based Fair PCA via Optimization over Stiefel Manifold"
    (2022), made from 40 % of the rows and standardised by the training part; 11 features, of which
    one *is* the group (race), as they used them.

    Accepted files: `compas-scores-two-years.csv`; for the splits `compas_splits.npz` or the
    published text files under `compas_splits/`.

    What is questionable:

    * The outcome is an arrest, not an offence: where and whom police arrest is part of the label.
    * Race was written down by officers; "Caucasian" and "African-American" are their words.
    * ProPublica's two-year window was applied to only some of the people who were arrested again,
      which makes the base rate too high (M. Barenstein, 2019).
    * Fairness papers use this table for lack of another. M. Bao et al., "It's COMPASlicated"
      (2021), say why conclusions about justice should not be drawn from that.

    Parameters
    ----------
    variant : {"default", "splits"}, default="default"
        Described above.
    sensitive : {"race", "sex"}, both, or None, default="race"
        What makes the groups. None keeps all columns and makes no groups. Ignored by
        ``variant="splits"``, whose groups are "Caucasian" and "other".
    split, subset : int, {"train", "test"}, default=0, "train"
        Which of the ten splits, 0 to 9, and which part of it, for ``variant="splits"``.
    data_home, download_if_missing, return_X_y, as_frame
        As in all loaders, and so is the Bunch that is returned: see `fairpca.datasets`.

    Examples
    --------
    >>> from fairpca.datasets import fetch_compas
    >>> records = fetch_compas(variant="splits", split=3, subset="test")
    >>> records.data.shape, sorted(set(records.sensitive_features))
    ((741, 11), ['Caucasian', 'other'])
    """
    check_choice("variant", variant, ("default", "splits"))
    source = _COMPAS
    if variant == "splits":
        check_choice("split", split, tuple(range(10)))
        check_choice("subset", subset, tuple(_SPLIT_ROWS))
        source, sensitive = _split_source(int(split), subset), "race"
    options = (data_home, download_if_missing, return_X_y, as_frame)
    return source.load(fetch_compas, sensitive, "default", *options)
