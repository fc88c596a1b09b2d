"""Failpoints do what they are told, where they are told, as often as they are told; the control socket tells them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from system_under_test.failpoints import Action, Dropped, FailpointError, Failpoints
from system_under_test.server.control import ControlSocket


def test_off_by_default_and_off_again_when_released() -> None:
    failpoints = Failpoints()
    states = [failpoints.on]
    number = failpoints.arm("fetch.response", Action.DROP)
    states.append(failpoints.on)
    assert failpoints.release(number) == 1
    states.append(failpoints.on)
    assert states == [False, True, False]


def test_matches_and_counts() -> None:
    async def main() -> None:
        failpoints = Failpoints()
        failpoints.arm("fetch.response", Action.DROP, {"topic": "t", "partition": 1}, count=1)
        await failpoints.reach("fetch.response", topic="t", partition=2)
        await failpoints.reach("follower.fetch", topic="t", partition=1)
        with pytest.raises(Dropped):
            await failpoints.reach("fetch.response", topic="t", partition=1)
        await failpoints.reach("fetch.response", topic="t", partition=1)
        assert [each.hits for each in failpoints.armed()] == [1]

    asyncio.run(main())


def test_actions() -> None:
    async def main() -> None:
        crashed: list[bool] = []
        failpoints = Failpoints(lambda: crashed.append(True))
        failpoints.arm("fetch.response", Action.ERROR)
        with pytest.raises(FailpointError):
            await failpoints.reach("fetch.response")
        failpoints.release()
        failpoints.arm("fetch.response", Action.CRASH)
        await failpoints.reach("fetch.response")
        assert crashed == [True]
        failpoints.release()
        held = failpoints.arm("fetch.response", Action.HOLD)
        waiting = asyncio.create_task(failpoints.reach("fetch.response"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
        failpoints.release(held)
        await asyncio.wait_for(waiting, 5)

    asyncio.run(main())


@pytest.mark.parametrize(("point", "match"), [("fetch.respons", {}), ("fetch.response", {"topc": "t"})])
def test_unknown_names_are_refused(point: str, match: dict[str, str | int]) -> None:
    with pytest.raises(ValueError, match="failpoint"):
        Failpoints().arm(point, Action.DROP, match)


def test_the_control_socket(tmp_path: Path) -> None:
    path = tmp_path / "control.sock"

    async def main() -> list[dict[str, Any]]:
        failpoints = Failpoints()
        control = ControlSocket(path, failpoints)
        await control.start()
        reader, writer = await asyncio.open_unix_connection(str(path))
        answers = []
        for line in (
            b'{"do": "set", "point": "fetch.response", "action": "drop", "count": 1}',
            b'{"do": "hits"}',
            b'{"do": "set", "point": "nowhere", "action": "drop"}',
            b'{"do": "set", "point": "fetch.response"}',
            b"no json",
            b'{"do": "release"}',
        ):
            writer.write(line + b"\n")
            answers.append(json.loads(await asyncio.wait_for(reader.readline(), 5)))
        writer.close()
        control.close()
        return answers

    armed, hits, unknown, missing, garbage, released = asyncio.run(main())
    assert armed == {"ok": True, "id": 1}
    assert hits["armed"] == [{"id": 1, "point": "fetch.response", "action": "drop", "hits": 0}]
    assert "no failpoint 'nowhere'" in unknown["error"]
    assert not missing["ok"]
    assert not garbage["ok"]
    assert released == {"ok": True, "released": 1}
    assert not path.exists()
