"""Tables about people: clients, students, defendants, speakers, and their genomes.

The clients of the two banks are coded as numbers, as the authors of Fair PCA have them. Of the
records from the United States, categories are 0/1 columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from sklearn.utils import Bunch

from fairpca._check import check_choice
from fairpca.datasets.loading import (
    DataUnavailableError,
    Names,
    Options,
    Table,
    check_shape,
    need,
    obtain,
    reading,
    resolve_home,
)

# Where GitHub publishes files, and there the authors of Fair PCA and those who thinned HapMap 3.
GITHUB = "https://raw.githubusercontent.com/"
AUTHORS = GITHUB + "JunhuiShen/Fair-PCA-via-EigOpt/ea74a195001dc5491ea437b158daba0516d69f51/"
_FLASHPCA = GITHUB + "gabraham/flashpca/b8044f13607a072125828547684fde8b081d6191/HapMap3/"
_SURVEY = GITHUB + "tailequy/fairness_dataset/abb5a18b822ba56a221c5311082e192e85000b95/"
_PROPUBLICA = GITHUB + "propublica/compas-analysis/bafff5da3f2e45eca6c2d5055faad269defd135a/"

# The columns of the bank's file, in their order, and what the codes 1, 2, ... mean.
_BANK_NAMES = (
    "age job marital education default balance housing loan contact day month duration campaign "
    "pdays previous poutcome y"
).split()
_BANK_LEVELS = {
    "job": "management technician entrepreneur blue-collar unknown retired admin. services "
    "self-employed unemployed housemaid student".split(),
    "marital": ["married", "single", "divorced"],
    "education": ["primary", "secondary", "tertiary", "unknown"],
}
# The columns of the authors' credit file after its row number; codes without a level are "other".
_CREDIT_NAMES = (
    "EDUCATION", "SEX", "LIMIT_BAL", "MARRIAGE", "AGE",
    *(f"{name}{j}" for name in ("PAY_", "BILL_AMT", "PAY_AMT") for j in range(1, 7)),
    "default payment next month",
)  # fmt: skip
_CREDIT_LEVELS = {
    "education": ("graduate school", "university", "high school"),
    "sex": ("male", "female"),
    "marriage": ("married", "single"),
}
# The features of Adult and of COMPAS: numbers as they are, categories as 0/1 columns.
_ADULT_NUMERIC = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
_ADULT_CATEGORICAL = (
    "sex race workclass marital-status occupation relationship native-country".split()
)
_COMPAS_NUMERIC = ["age", "juv_fel_count", "juv_misd_count", "juv_other_count", "priors_count"]
# The files of HapMap 3: what their names end in, and their SHA-256.
_HAPMAP = {
    "bed": "4e7cbb58b47c05026bce109db4e425f852382ac597735dc32ebfc29e7f84efb8",
    "bim": "7db221e0612a19bffcc53fef5c73b7592e425de431221c1985a6fbeecadea26c",
    "fam": "d70ddafd3caed0b974e5029f550817a822a8afafe277920633c28766069ec509",
    "txt": "2f109108a43a4115d7e696a469470999858bfd177df51dc5bf5331bcc7205691",
}


def _codes(path: Path, shape: tuple[int, int], skip: int = 0) -> Any:
    """Return a table of whole numbers, some of which are written with a point."""
    with reading(path):
        values = np.loadtxt(path, delimiter=",", skiprows=skip, ndmin=2)
        check_shape(values, shape)
    return values.astype(np.int64)


def _finished(table: Table, variant: str, in_a: Any) -> Table:
    """Return a table, or what the paper makes of it: all but the first column, and the target."""
    check_choice("variant", variant, ("default", "paper"))
    if variant == "default":
        return table
    data = np.column_stack([table.data[:, 1:], table.target])  # type: ignore[list-item]
    return table.as_in_paper(in_a, data, [*table.feature_names[1:], table.target_name])


def fetch_bank_marketing(
    *, variant: str = "default", sensitive: Names = "age", **options: Unpack[Options]
) -> Bunch:
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

    Accepted file: `bank.csv` as the Fair PCA authors publish it.

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
    data_home, download_if_missing, as_frame
        As in all loaders, and so is the Bunch that is returned: see `fairpca.datasets`.

    Examples
    --------
    >>> from fairpca.datasets import fetch_bank_marketing
    >>> calls = fetch_bank_marketing()
    >>> calls.data.shape, int((calls.sensitive_features == "65 or older").sum())
    ((45211, 15), 810)
    """
    sha256 = "bde995d7cb02f5c72b7d5782437c8e2c2cde443fba21d7513cdfa0556adb5440"
    path = obtain("bank.csv", f"{AUTHORS}bank.csv", sha256, **options)
    codes = _codes(path, (45211, len(_BANK_NAMES)))
    groupings = {"age": np.where(codes[:, 0] >= 65, "65 or older", "under 65")}
    for name, levels in _BANK_LEVELS.items():
        groupings[name] = np.array(levels)[codes[:, _BANK_NAMES.index(name)] - 1]
    data, y = codes[:, :-1].astype(float), codes[:, -1]
    table = Table(data, _BANK_NAMES[:-1], groupings, target=y, target_name="y")
    table = _finished(table, variant, codes[:, 0] >= 65)
    return table.bunch(fetch_bank_marketing, path, sensitive, **options)


def fetch_credit_default(
    *, variant: str = "default", sensitive: Names = "education", **options: Unpack[Options]
) -> Bunch:
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

    Accepted file: `default_degree.csv` of the Fair PCA authors.

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
    data_home, download_if_missing, as_frame
        As in all loaders, and so is the Bunch that is returned: see `fairpca.datasets`.

    Examples
    --------
    >>> from fairpca.datasets import fetch_credit_default
    >>> clients = fetch_credit_default(sensitive=["education", "sex"])
    >>> clients.data.shape, clients.sensitive_features.shape
    ((30000, 21), (30000, 2))
    """
    name = "default_degree.csv"
    sha256 = "c58f7df737cb7953d9022cf9487cf8001c0417ae97bd308301ad733f20c88fc3"
    path = obtain(name, f"{AUTHORS}{name}", sha256, **options)
    codes = np.ascontiguousarray(_codes(path, (30000, 25), skip=2)[:, 1:])
    groupings = {}
    for name, levels in _CREDIT_LEVELS.items():
        column = codes[:, _CREDIT_NAMES.index(name.upper())]
        known = (column >= 1) & (column <= len(levels))
        groupings[name] = np.array(("other", *levels))[np.where(known, column, 0)]
    *features, target = _CREDIT_NAMES
    data, y = codes[:, :-1].astype(float), codes[:, -1]
    table = Table(data, features, groupings, target=y, target_name=target)
    table = _finished(table, variant, codes[:, 0] <= 1)
    return table.bunch(fetch_credit_default, path, sensitive, **options)


def fetch_law_school(*, sensitive: Names = "race", **options: Unpack[Options]) -> Bunch:
    """Load the law students, grouped by race.

    20,798 students who entered law schools of the United States in 1991; the target is whether
    they passed the bar examination (18,505 did). Deciles of the grades in the first and the third
    year, admission test, grades before and in law school, full time or not, family income, sex and
    the tier of the school. L. F. Wightman, "LSAC National Longitudinal Bar Passage Study" (1998),
    as cleaned by T. Le Quy, A. Roy, V. Iosifidis, W. Zhang and E. Ntoutsi, "A survey on datasets
    for fairness-aware machine learning" (2022), without a stated licence.

    Accepted file: `law_school.csv`, there called `law_school_clean.csv`.

    What is questionable:

    * Everybody who is not White is one group, "Non-White" (3,307): differences within are gone.
    * Tests and grades measure schools and preparation, too; the target depends on who took part.
    * Rows with missing values were dropped, and nobody says whose they were.

    Parameters
    ----------
    sensitive : {"race", "sex"}, both, or None, default="race"
        What makes the groups. None keeps all columns and makes no groups.
    data_home, download_if_missing, as_frame
        As in all loaders, and so is the Bunch that is returned: see `fairpca.datasets`.

    Examples
    --------
    >>> from fairpca.datasets import fetch_law_school
    >>> students = fetch_law_school()
    >>> students.data.shape, int((students.sensitive_features == "White").sum())
    ((20798, 10), 17491)
    """
    sha256 = "23c1b173f3480beb7afc4957b107a9917dfc4a8dc9d87ea6034ec35222152452"
    url = f"{_SURVEY}experiments/data/law_school_clean.csv"
    path = obtain("law_school.csv", url, sha256, **options)
    with reading(path):
        frame = need("pandas").read_csv(path)
        check_shape(frame, (20798, 12))
        # Called so that it leaves the features where sex makes the groups.
        features = frame.drop(columns=["race", "pass_bar"]).rename(columns={"male": "sex=male"})
        sex = np.where(frame["male"].to_numpy() > 0, "male", "female")
        groupings = {"race": frame["race"].to_numpy(dtype=str), "sex": sex}
        y = frame["pass_bar"].to_numpy(dtype=np.int64)
    data, names = np.ascontiguousarray(features.to_numpy(dtype=float)), list(features.columns)
    table = Table(data, names, groupings, target=y, target_name="pass_bar")
    return table.bunch(fetch_law_school, path, sensitive, **options)


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


def fetch_adult(*, sensitive: Names = "sex", **options: Unpack[Options]) -> Bunch:
    """Load the Adult census sample, grouped by sex.

    48,842 people of the US Current Population Survey of 1994: age, work, education, family,
    origin, capital gains, hours; the target is an income above 50,000 dollars (11,687 have it).
    B. Becker and R. Kohavi (1996), also known as Census Income, UCI Machine Learning Repository,
    data set 2, CC BY 4.0.

    Categories become 0/1 columns named ``column=level``; a missing value is "?", a level of its
    own. `education` repeats `education-num` and is left out. `fnlwgt`, how many people a row
    stands for, is no feature: it is in `sample_weight`, which FairPCA accepts.

    Read by `sklearn.datasets.fetch_openml` (data set 1590), which keeps it in `data_home`.

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
    data_home, download_if_missing, as_frame
        As in all loaders, and so is the Bunch that is returned: see `fairpca.datasets`.

    Examples
    --------
    >>> from fairpca.datasets import fetch_adult
    >>> fetch_adult(sensitive="race").data.shape[0]  # doctest: +SKIP
    48842
    """
    from sklearn.datasets import fetch_openml

    home = resolve_home(options.get("data_home"))
    try:
        if not options.get("download_if_missing", True) and not (home / "openml").exists():
            raise FileNotFoundError("download_if_missing=False")
        found = fetch_openml("adult", version=2, data_home=str(home), as_frame=True)
    except OSError as error:
        raise DataUnavailableError(f"OpenML's data set 1590 is not in {home}: {error}") from None
    kinds = found.data[_ADULT_CATEGORICAL].astype(object).fillna("?")
    frame = found.data.assign(**kinds)
    rich = found.target.astype(str).str.startswith(">").rename("income")
    weight = frame["fnlwgt"].to_numpy(dtype=float)
    table = _one_hot(frame, _ADULT_NUMERIC, _ADULT_CATEGORICAL, rich, sample_weight=weight)
    return table.bunch(fetch_adult, home, sensitive, **options)


def fetch_compas(*, sensitive: Names = "race", **options: Unpack[Options]) -> Bunch:
    """Load the COMPAS records, grouped by race.

    People scored by the COMPAS risk tool in Broward County, Florida, in 2013 and 2014, and whether
    they were arrested again within two years; published by ProPublica (J. Angwin, J. Larson,
    S. Mattu and L. Kirchner, "Machine Bias", 2016), whose terms apply; do not redistribute.

    6,172 of 7,214 rows after ProPublica's own filter (scored within 30 days of the arrest, no
    missing outcome, no ordinary traffic offence, a score is given). Features: age, earlier
    offences, degree of the charge, sex, race (0/1 columns). The score is no feature.

    Accepted file: `compas-scores-two-years.csv`.

    What is questionable:

    * The outcome is an arrest, not an offence: where and whom police arrest is part of the label.
    * Race was written down by officers; "Caucasian" and "African-American" are their words.
    * ProPublica's two-year window was applied to only some of the people who were arrested again,
      which makes the base rate too high (M. Barenstein, 2019).
    * Fairness papers use this table for lack of another. M. Bao et al., "It's COMPASlicated"
      (2021), say why conclusions about justice should not be drawn from that.

    Parameters
    ----------
    sensitive : {"race", "sex"}, both, or None, default="race"
        What makes the groups. None keeps all columns and makes no groups.
    data_home, download_if_missing, as_frame
        As in all loaders, and so is the Bunch that is returned: see `fairpca.datasets`.

    Examples
    --------
    >>> from fairpca.datasets import fetch_compas
    >>> fetch_compas(sensitive="sex").data.shape[0]  # doctest: +SKIP
    6172
    """
    name = "compas-scores-two-years.csv"
    # Recorded by several public projects that pin this file; not computed by us.
    sha256 = "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d"
    path = obtain(name, f"{_PROPUBLICA}{name}", sha256, **options)
    with reading(path):
        frame = need("pandas").read_csv(path)
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
        table = _one_hot(frame, numeric, ("sex", "race"), frame["two_year_recid"])
    return table.bunch(fetch_compas, path, sensitive, **options)


def fetch_hapmap3(**options: Unpack[Options]) -> Bunch:
    """Load genotypes of people from eleven populations.

    957 unrelated people of phase 3 of the International HapMap Project (2010), at 14,079 places of
    the genome where people differ and that say little about each other, as thinned by G. Abraham
    for the program flashpca (in whose repository they lie, GPL-3). From 48 people of Mexican
    ancestry in Los Angeles (MEX) to 140 Maasai in Kinyawa (MKK). The project's data are public;
    see its data release policy.

    `data` are counts of the first allele as Patterson, Price and Reich (2006) standardise them,
    ``(g - 2p) / sqrt(2p(1 - p))``, zero where a count is missing, in float32. `genotypes` are the
    counts themselves, int8, -127 where missing. `filename` is the PLINK file.

    Accepted files: `HM3_thinned_autosomal_overlap.bed`, `.bim` and `.fam`, and
    `relationships_w_pops_121708.txt`, in a folder `hapmap3`.

    What is questionable:

    * A population is where people were asked, such as "Yoruba in Ibadan"; it stands for no
      continent, no country, and not for everybody who calls themselves so.
    * Everybody consented to have their genome published; they cannot take it back.

    Parameters
    ----------
    data_home, download_if_missing, as_frame
        As in all loaders, and so is the Bunch that is returned: see `fairpca.datasets`.

    Examples
    --------
    >>> from fairpca.datasets import fetch_hapmap3
    >>> people = fetch_hapmap3()
    >>> people.data.shape, len(set(people.sensitive_features))
    ((957, 14079), 11)
    """
    paths = []
    for end, sha256 in _HAPMAP.items():
        name = f"HM3_thinned_autosomal_overlap.{end}"
        name = "relationships_w_pops_121708.txt" if end == "txt" else name
        paths += [obtain(f"hapmap3/{name}", _FLASHPCA + name, sha256, **options)]
    with reading(paths[0]):
        variants, people, known = (np.loadtxt(path, dtype=str) for path in paths[1:])
        # Two bits a person, four people a byte, one line of bytes a place of the genome.
        packed = np.fromfile(paths[0], np.uint8, offset=3).reshape(len(variants), -1)
        bits = np.stack([packed >> shift & 3 for shift in (0, 2, 4, 6)], axis=-1)
        codes = bits.reshape(len(variants), -1)[:, : len(people)]
        genotypes = np.array([2, -127, 1, 0], dtype=np.int8)[codes].T
        population = dict(zip(known[1:, 1], known[1:, 6], strict=True))
        labels = np.array([population[person] for person in people[:, 1]])
    missing = genotypes < 0
    share = np.where(missing, 0, genotypes).sum(axis=0) / (2 * (~missing).sum(axis=0))
    data = (genotypes - 2 * share) / np.sqrt(2 * share * (1 - share))
    data = np.where(missing, 0, data).astype(np.float32)
    extras = {"genotypes": np.ascontiguousarray(genotypes)}
    table = Table(data, variants[:, 1].tolist(), {"population": labels}, extras=extras)
    return table.bunch(fetch_hapmap3, paths[0], "population", **options)


def load_japanese_vowels(*, as_frame: bool = False) -> Bunch:
    """Load two Japanese vowels said by nine men; this table comes with the package.

    9,961 moments of 640 utterances of /ae/ by nine male speakers: twelve coefficients (of the
    cepstrum, by linear prediction) of 25.6 milliseconds of sound each, every 6.4 milliseconds.
    M. Kudo, J. Toyama and M. Shimbo, "Multidimensional curve classification using passing-through
    regions", Pattern Recognition Letters 20 (1999). UCI Machine Learning Repository, data set 128,
    https://doi.org/10.24432/C5NS47, CC BY 4.0; training and test part in one table.

    `utterance` numbers the utterances: the moments of one are much alike, so hold out whole
    utterances, ``cross_fit(..., blocks=voices.utterance)``.

    What is questionable:

    * Nine men are not the speakers of a language, and one recording has its own microphone.

    Parameters
    ----------
    as_frame : bool, default=False
        As in all loaders, and so is the Bunch that is returned: see `fairpca.datasets`.

    Examples
    --------
    >>> from fairpca.datasets import load_japanese_vowels
    >>> voices = load_japanese_vowels()
    >>> voices.data.shape, len(set(voices.sensitive_features)), len(set(voices.utterance))
    ((9961, 12), 9, 640)
    """
    path = Path(__file__).with_name("japanese_vowels.csv.gz")
    rows = np.loadtxt(path, delimiter=",", skiprows=1)
    speakers = np.array([f"speaker {number:.0f}" for number in rows[:, 0]])
    names = [f"lpc{j}" for j in range(1, 13)]
    extras = {"utterance": rows[:, 1].astype(np.int64)}
    table = Table(np.ascontiguousarray(rows[:, 2:]), names, {"speaker": speakers}, extras=extras)
    return table.bunch(load_japanese_vowels, path, "speaker", as_frame=as_frame)
