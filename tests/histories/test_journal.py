"""A journal keeps every whole record through a kill, and never hides damage."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from histories import journal_reader
from histories.errors import HistoryError
from histories.journal import JournalWriter
from histories.journal_format import Frame
from histories.journal_reader import JournalReader
from histories.recorded import Completion, CoverageRow, Invocation, RecordedEvent, Step
from histories.schema import F, Isolation, Kind, Outcome, Phase
from histories.seal_index import index_journal


def small_journal(path: Path) -> list[tuple[int, int, bool]]:
    """Writes one of everything. Returns size of the file, operations begun, last one complete, after each."""
    states = []
    with JournalWriter(path, "run", worker=2, started_ns=7) as journal:

        def note(begun: int, completed: bool) -> None:
            states.append((path.stat().st_size, begun, completed))

        note(0, False)
        op = journal.invoke_sends(1, 0, 0, -1, Phase.MAIN, 10, [0, 1, 2], [100, 101, 102])
        note(1, False)
        statuses = [Outcome.OK, None, Outcome.FAIL]
        journal.complete_sends(op, Outcome.INFO, 20, "_TIMED_OUT", statuses, [5, None, None])
        note(1, True)
        op = journal.invoke_poll(1, 0, Isolation.READ_COMMITTED, Phase.FINAL, 30)
        note(2, False)
        journal.event(RecordedEvent("leader", time_ns=31, leader=2, isr=(1, 2)))
        note(2, False)
        journal.complete_poll(op, Outcome.OK, 40, None, [0], [5], [100])
        note(2, True)
        send = Step(Kind.SEND, 0, value=103)
        op = journal.invoke(Invocation(1, 1, F.TXN, 50, txn_id="txn-ä", steps=(send,)))
        note(3, False)
        journal.commit_requested(op, 55)
        note(3, False)
        journal.complete(op, Completion(Outcome.OK, 60, steps=(Step(Kind.SEND, 0, 103, 6, Outcome.OK),)))
        note(3, True)
        journal.coverage(CoverageRow(0, Isolation.READ_UNCOMMITTED, True))
        note(3, True)
    return states


def begun_and_completed(path: Path, scratch: Path) -> tuple[int, list[bool], int]:
    reader = JournalReader(path)
    if reader.header is None:
        return 0, [], reader.torn_bytes
    index = index_journal(reader, 0, scratch)
    return len(index.rows), (index.rows["complete_at"] > 0).tolist(), index.torn_bytes


@pytest.mark.parametrize("chunk_bytes", [8, 8 * 1024 * 1024])
def test_a_kill_at_any_byte_loses_only_the_unfinished_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    monkeypatch.setattr(journal_reader, "CHUNK_BYTES", chunk_bytes)
    states = small_journal(tmp_path / "whole.journal")
    whole = (tmp_path / "whole.journal").read_bytes()
    assert states[-1][0] == len(whole)
    for size in range(len(whole) + 1):
        (tmp_path / "cut.journal").write_bytes(whole[:size])
        begun, completed, torn = begun_and_completed(tmp_path / "cut.journal", tmp_path / "index")
        kept, expected_begun, last_complete = max(
            (state for state in states if state[0] <= size), default=(0, 0, False)
        )
        assert begun == expected_begun
        assert completed == [True] * (begun - 1) + [last_complete] * (begun > 0)
        # A text may be whole where the record that needs it is not.
        assert torn <= size - kept


def test_damage_in_the_middle_is_an_error_at_every_byte(tmp_path: Path) -> None:
    small_journal(tmp_path / "whole.journal")
    whole = (tmp_path / "whole.journal").read_bytes()
    chunk = next(JournalReader(tmp_path / "whole.journal").chunks())
    last = int(chunk.places[-1])
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 0x41
        (tmp_path / "damaged.journal").write_bytes(damaged)
        if at < last:
            frame_at = int(chunk.places[np.searchsorted(chunk.places, at, side="right") - 1])
            with pytest.raises(HistoryError, match=rf"damaged\.journal: (damaged at byte {frame_at},|not a)"):
                begun_and_completed(tmp_path / "damaged.journal", tmp_path / "index")
        else:
            _, _, torn = begun_and_completed(tmp_path / "damaged.journal", tmp_path / "index")
            assert torn == len(whole) - last


def test_zeros_at_the_end_are_a_torn_tail(tmp_path: Path) -> None:
    """What a file system may leave after a crash of the machine."""
    small_journal(tmp_path / "a.journal")
    with (tmp_path / "a.journal").open("ab") as file:
        file.write(bytes(1000))
    assert begun_and_completed(tmp_path / "a.journal", tmp_path / "index") == (3, [True] * 3, 1000)


WRITER = """
import sys
from pathlib import Path
from histories.journal import JournalWriter
from histories.schema import Outcome, Phase
journal = JournalWriter(Path(sys.argv[1]), "run", 0, 0)
for n in range(10**9):
    op = journal.invoke_sends(1, 0, 0, -1, Phase.MAIN, n, [0], [n])
    print(n, flush=True)
    journal.complete_sends(op, Outcome.OK, n, None, [Outcome.OK], [n])
"""


def test_what_a_killed_writer_had_returned_from_is_there(tmp_path: Path) -> None:
    path = tmp_path / "w.journal"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(2000)]
        writer.send_signal(signal.SIGKILL)
        lines += writer.stdout.read().splitlines(keepends=True)
        said = [int(line) for line in lines if line.endswith(b"\n")]
        assert writer.wait(timeout=60) == -signal.SIGKILL
    begun, completed, torn = begun_and_completed(path, tmp_path / "index")
    assert begun in (said[-1] + 1, said[-1] + 2)
    assert all(completed[:-2])
    assert torn == 0


FULL_DISK = """
import resource, sys
from pathlib import Path
from histories.errors import HistoryError
from histories.journal import JournalWriter
from histories.schema import Phase
resource.setrlimit(resource.RLIMIT_FSIZE, (4001, 4001))
journal = JournalWriter(Path(sys.argv[1]), "run", 0, 0)
for n in range(1000):
    try:
        journal.invoke_sends(n, 0, 0, -1, Phase.MAIN, n, [0], [n])
    except HistoryError as error:
        print(n, error)
        break
try:
    journal.invoke_sends(n, 0, 0, -1, Phase.MAIN, n, [0], [n])
except HistoryError as error:
    print("again", error)
"""


def test_a_short_write_is_an_error_and_leaves_whole_frames(tmp_path: Path) -> None:
    path = tmp_path / "w.journal"
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    first, second = done.stdout.splitlines()
    assert "bytes were written" in first
    assert "free space on its disk" in first
    assert second.startswith("again")
    begun, _, torn = begun_and_completed(path, tmp_path / "index")
    assert begun == int(first.split()[0])
    assert torn == 0


def test_arguments_that_would_spoil_the_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.journal"
    with JournalWriter(path, "run", 0, 0) as journal:
        with pytest.raises(ValueError, match="unequal length"):
            journal.invoke_sends(1, 0, 0, -1, Phase.MAIN, 0, [0, 1], [5])
        with pytest.raises(ValueError, match="has no time"):
            journal.event(RecordedEvent("leader"))
        with pytest.raises(ValueError, match="known at completion"):
            journal.invoke(Invocation(1, 0, F.POLL, 0, steps=(Step(Kind.POLL, 0),)))
        with pytest.raises(HistoryError, match="exists already"):
            JournalWriter(path, "run", 0, 0)
    with pytest.raises(HistoryError, match="closed"):
        journal.invoke_poll(1, 0, None, Phase.MAIN, 0)
    assert begun_and_completed(path, tmp_path / "index") == (0, [], 0)


def test_what_is_no_journal_is_named(tmp_path: Path) -> None:
    path = tmp_path / "w.journal"
    path.write_text("hello, this is a text and nothing else")
    with pytest.raises(HistoryError, match="not a journal"):
        JournalReader(path)


def test_every_call_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[int] = []
    real = os.write

    def counting(file: int, data: bytes) -> int:
        writes.append(len(data))
        return real(file, data)

    monkeypatch.setattr(os, "write", counting)
    with JournalWriter(tmp_path / "w.journal", "run", 0, 0) as journal:
        op = journal.invoke_sends(1, 0, 0, -1, Phase.MAIN, 0, range(50), range(50))
        journal.complete_sends(op, Outcome.INFO, 1, "a new error", [None] * 50, [None] * 50)
    assert len(writes) == 3
    chunk = next(JournalReader(tmp_path / "w.journal").chunks())
    assert len(chunk.of(Frame.TEXT)) == 1


def test_a_text_whose_record_was_refused_is_introduced_by_the_next(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "w.journal", "run", 0, 0) as journal:
        op = journal.invoke_sends(1, 0, 0, -1, Phase.MAIN, 0, [0], [0])
        with pytest.raises(struct.error):
            journal.complete_sends(op, Outcome.INFO, 2**70, "an error", [None], [None])
        journal.complete_sends(op, Outcome.INFO, 1, "an error", [None], [None])
    index = index_journal(JournalReader(tmp_path / "w.journal"), 0, tmp_path / "index")
    assert index.texts == ["an error"]
