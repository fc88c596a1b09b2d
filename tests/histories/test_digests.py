"""Damaged bytes are noticed before anything is made of them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from checkers.judge import judge
from checkers.result import Verdict
from histories.build import HistoryBuilder
from histories.digests import SealedFile, digest_files
from histories.errors import HistoryError
from histories.meta import Meta
from histories.read import open_history
from tests.checkers.local import local_context
from tests.histories.damage import flip, forget_digests


@pytest.fixture
def history(tmp_path: Path) -> Path:
    b = HistoryBuilder()
    for value in range(20):
        b.send(process=0, key=0, value=value, offset=value)
    b.scan_rest()
    b.event("phase", detail="up")
    b.write(tmp_path / "history")
    return tmp_path / "history"


def files(history: Path) -> list[Path]:
    return sorted(path for path in history.rglob("*") if path.is_file())


def refusal(history: Path) -> str | None:
    try:
        open_history(history)
    except HistoryError as error:
        return str(error)
    return None


def test_every_file_is_sealed(history: Path) -> None:
    meta, _ = open_history(history)
    assert {history / name for name in meta.files} | {history / "meta.json"} == set(files(history))
    assert meta.files == digest_files(history, history.glob("*/*.parquet"))
    assert judge(local_context(), history, path_label="h").verdict is Verdict.VALID


def test_a_flipped_bit_is_noticed_wherever_it_is(history: Path) -> None:
    """Never a verdict from damaged bytes; unless they say the same, as a space of meta.json may."""
    draw, meta = random.Random(5), Meta.read(history / "meta.json")
    refused = 0
    for path in files(history):
        whole = path.read_bytes()
        places = range(len(whole)) if path.suffix == ".json" else sorted(draw.sample(range(len(whole)), 150))
        for place in places:
            flip(path, place, draw.randrange(8))
            said = refusal(history)
            if said is None:
                assert path.suffix == ".json", f"bit of byte {place} of {path} was not noticed"
                assert open_history(history)[0] == meta
            else:
                assert str(path) in said
                refused += 1
            path.write_bytes(whole)
    assert refused > 1000
    assert open_history(history)[0] == meta


@pytest.mark.parametrize("size", [0, 5, -1])
def test_a_part_of_another_size(history: Path, size: int) -> None:
    part = history / "mops" / "part-00000.parquet"
    whole = part.read_bytes()
    part.write_bytes(whole[:size])
    with pytest.raises(HistoryError, match=rf"mops.*not a whole Parquet file.* {len(whole)} were sealed"):
        open_history(history)
    part.write_bytes(whole + b"x")
    with pytest.raises(HistoryError, match=rf"it has {len(whole) + 1} bytes"):
        open_history(history)


def test_a_part_of_another_history(history: Path, tmp_path: Path) -> None:
    """Whole, with the same rows, and wrong."""
    b = HistoryBuilder()
    for value in range(20):
        b.send(process=0, key=0, value=value + 100, offset=value)
    b.scan_rest()
    b.event("phase", detail="up")
    b.write(tmp_path / "other")
    (tmp_path / "other" / "mops" / "part-00000.parquet").replace(history / "mops" / "part-00000.parquet")
    with pytest.raises(HistoryError, match=r"mops/part-00000\.parquet: (damaged|not a whole)"):
        open_history(history)


def test_a_part_that_was_not_sealed(history: Path) -> None:
    """As many rows as were sealed, but nobody knows whether they are the same ones."""
    part = history / "mops" / "part-00000.parquet"
    part.rename(part.with_name("part-00001.parquet"))
    with pytest.raises(HistoryError, match=r"mops/part-00001\.parquet: it was not sealed with this history"):
        open_history(history)


def test_a_changed_meta(history: Path) -> None:
    path = history / "meta.json"
    document = json.loads(path.read_text())
    document["producers"][0]["acks"] = 1
    path.write_text(json.dumps(document))
    with pytest.raises(HistoryError, match="do not fit their digest"):
        open_history(history)
    del document["digest"]
    path.write_text(json.dumps(document))
    assert open_history(history)[0].producers[0].acks == 1


def test_a_history_without_digests_is_read(history: Path) -> None:
    meta = Meta.read(history / "meta.json")
    forget_digests(history)
    found, _ = open_history(history)
    assert found.files == {}
    assert found.counts == meta.counts
    assert judge(local_context(), history, path_label="h").verdict is Verdict.VALID


def test_a_damaged_footer_is_refused_without_digests_too(history: Path) -> None:
    """A name in it that is not UTF-8: pyarrow has no error of its own for that."""
    forget_digests(history)
    part = history / "mops" / "part-00000.parquet"
    whole = part.read_bytes()
    part.write_bytes(whole.replace(b"complete_ns", b"complete\xff\xffs"))
    assert part.read_bytes() != whole
    with pytest.raises(HistoryError, match=r"mops/part-00000\.parquet: not a whole Parquet file"):
        open_history(history)


def test_a_part_that_cannot_be_read(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("hashlib.file_digest", refuses)
    with pytest.raises(HistoryError, match=r"part-00000\.parquet: cannot be read: Permission denied"):
        open_history(history)


def test_digests_of_nothing(tmp_path: Path) -> None:
    assert digest_files(tmp_path, []) == {}
    (tmp_path / "empty").touch()
    assert digest_files(tmp_path, [tmp_path / "empty"])["empty"] == SealedFile(
        0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    )
