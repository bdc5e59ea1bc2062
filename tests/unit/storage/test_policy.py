"""The error policy, one case for each row of it."""

from __future__ import annotations

import pytest

from integration.storage.policy import Disposition, classify

RERUN_CODES = [1213, 8002, 8005, 8022, 8028, 9004, 9007, 1020, 1205, 8133]


@pytest.mark.parametrize("code", RERUN_CODES)
@pytest.mark.parametrize("at_commit", [False, True])
def test_classify__surely_rolled_back_is_rerun(code: int, at_commit: bool):
    assert classify(code, "", at_commit=at_commit, in_transaction=True) is Disposition.RERUN


@pytest.mark.parametrize("code", [1062, 8147])
@pytest.mark.parametrize("at_commit", [False, True])
def test_classify__taken_unique_key_is_a_conflict_also_at_commit(code: int, at_commit: bool):
    assert classify(code, "", at_commit=at_commit, in_transaction=True) is Disposition.CONFLICT


@pytest.mark.parametrize("code", [2006, 2013, 2055, 1105, 1064, 0])
def test_classify__any_other_error_of_commit_is_unknown(code: int):
    text = "execution result undetermined"
    assert classify(code, text, at_commit=True, in_transaction=True) is Disposition.UNKNOWN


@pytest.mark.parametrize("code", [2006, 2013, 2055])
def test_classify__lost_connection_rolls_an_open_transaction_back(code: int):
    assert classify(code, "", at_commit=False, in_transaction=True) is Disposition.UNAVAILABLE


@pytest.mark.parametrize("code", [2006, 2013, 2055])
def test_classify__lost_connection_of_a_lone_statement_is_unknown(code: int):
    assert classify(code, "", at_commit=False, in_transaction=False) is Disposition.UNKNOWN


@pytest.mark.parametrize("code", [1021, 1040, 1053, 1114, 1129, 9001, 9002, 9003, 9005])
def test_classify__full_or_absent_server_is_unavailable(code: int):
    assert classify(code, "", at_commit=False, in_transaction=True) is Disposition.UNAVAILABLE


def test_classify__busy_row_loses():
    assert classify(3572, "", at_commit=False, in_transaction=True) is Disposition.LOCK_HELD


@pytest.mark.parametrize("code", [1064, 1235, 8004, 8025, 8130, 1105])
def test_classify__our_own_defects_are_never_retried(code: int):
    assert classify(code, "something else", at_commit=False, in_transaction=True) is Disposition.DEFECT


@pytest.mark.parametrize(
    "text",
    [
        "Information schema is changed during the execution",
        # Eight claimants of one row: a locked read that kept meeting a newer version.
        "pessimistic lock retry limit reached",
    ],
)
def test_classify__what_tidb_undid_under_its_general_number_is_rerun(text: str):
    assert classify(1105, text, at_commit=True, in_transaction=True) is Disposition.RERUN
