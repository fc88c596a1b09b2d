"""What producers promise, and what a person may say instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.promises import PromiseOverride, Promises
from histories.errors import HistoryError
from histories.meta import KeyInfo, Meta, ProducerSettings, TopicSettings


def meta(*producers: ProducerSettings) -> Meta:
    return Meta("run", "synthetic", (KeyInfo("t", 0),), {"t": TopicSettings(1, 3, 2)}, producers)


SAFE = ProducerSettings(acks=-1, idempotent=True, retries=9, max_in_flight=5)
ONE_BY_ONE = ProducerSettings(acks=1, idempotent=False, retries=9, max_in_flight=1)
NO_RETRY = ProducerSettings(acks=0, idempotent=False, retries=0, max_in_flight=5)


def test_each_producer_promises_by_its_own_settings_and_the_unknown_one_what_all_do() -> None:
    promises = Promises.of(meta(SAFE, ONE_BY_ONE, NO_RETRY), PromiseOverride())
    assert promises.safe.tolist() == [True, False, False, False]
    assert promises.idempotent.tolist() == [True, False, False, False]
    assert promises.once.tolist() == [True, False, True, False]
    assert promises.single.tolist() == [False, True, False, False]
    assert promises.acks_zero.tolist() == [False, False, True, False]
    assert promises.void is False


def test_the_unknown_producer_promises_what_all_of_them_do() -> None:
    promises = Promises.of(meta(SAFE, SAFE), PromiseOverride())
    assert promises.safe.tolist() == promises.idempotent.tolist() == promises.once.tolist() == [True] * 3
    assert Promises.of(meta(NO_RETRY), PromiseOverride()).acks_zero.tolist() == [True, False]


def test_what_a_person_says_holds_for_all_producers() -> None:
    said = PromiseOverride(safe=False, idempotent=True, void=True)
    promises = Promises.of(meta(SAFE, ONE_BY_ONE), said)
    assert promises.safe.tolist() == [False] * 3
    assert promises.idempotent.tolist() == promises.once.tolist() == [True] * 3
    assert promises.single.tolist() == [False, True, False]
    assert promises.void is True


def test_a_file_of_promises(tmp_path: Path) -> None:
    file = tmp_path / "promises.toml"
    file.write_text("safe = true\nunclean = false\n")
    assert PromiseOverride.read(file) == PromiseOverride(safe=True, unclean=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("saef = true", "unknown promise 'saef'; did you mean 'safe'\\?"),
        ("xyzzy = true", "unknown promise 'xyzzy'; known are safe, idempotent, unclean, void"),
        ("safe = 1", "safe is true or false, not 1"),
        ("safe = ", "not TOML"),
    ],
)
def test_a_wrong_file_of_promises_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "promises.toml"
    file.write_text(text)
    with pytest.raises(HistoryError, match=message):
        PromiseOverride.read(file)


def test_a_file_of_promises_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "promises.toml"
    file.write_bytes(b"safe = \xff")
    with pytest.raises(HistoryError, match="not TOML"):
        PromiseOverride.read(file)


def test_a_missing_file_of_promises_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="No such file"):
        PromiseOverride.read(tmp_path / "none.toml")
