"""The schedules by which Kafka once lost or mixed up records, on a :class:`tests.chaos.stage.Stage`.

The same ones as in the simulation (``tests/system_under_test/simulation/test_scenarios.py``), where a cut network orders
what failpoints order here. Each leaves the topic with all replicas in sync.
"""

from __future__ import annotations

from tests.chaos.stage import IDS, Stage


def kip_101(stage: Stage, topic: str) -> list[bytes]:
    """A new leader dies before a follower, which has cut its log back, could fetch again what it cut.

    ``slow`` has m2 and does not know yet that it is committed. Returns what a consumer then reads.
    """
    old = stage.controller()
    new, slow = (each for each in IDS if each != old)
    stage.create(topic, (new, slow, old), leader=old)
    stage.append(old, topic, b"m1")
    # The answer that brings m2 to `slow` is on its way; the next one, which would bring the high watermark, stays away.
    with_m2 = stage.failpoints(slow).set("follower.before_append", "hold", topic=topic)
    m2 = stage.appending(old, topic, b"m2")
    stage.await_hit(slow, with_m2, f"broker {slow} gets m2")
    news = stage.failpoints(old).set("fetch.response", "hold", peer=slow)
    stage.failpoints(slow).release(with_m2)
    stage.await_hit(old, news, f"broker {slow} has appended m2 and asks for more")
    assert m2.result() == [1], "m2 is acknowledged under acks=all"
    refetch = stage.failpoints(slow).set("follower.fetch", "hold", peer=new)
    stage.elect_preferred(topic, new)
    stage.await_hit(slow, refetch, f"broker {slow} follows broker {new}")
    stage.kill(new)
    stage.await_leader(topic, slow)
    stage.failpoints(slow).release()
    stage.failpoints(old).release()
    stage.append(slow, topic, b"m3")
    stage.restart(new)
    stage.await_isr(topic, set(IDS))
    stage.append(slow, topic, b"m4")
    return stage.read(topic, until=b"m4")


def kip_279(stage: Stage, topic: str) -> list[bytes]:
    """Leaders change from ``one`` to ``two`` and back, and both append what the other does not get.

    ``two`` then has an epoch that ``one`` never had. Where ``one`` answers with the start of its next larger epoch,
    ``two`` keeps records of its own epoch below that, which differ from ``one``'s. Returns what a consumer reads: the log of ``one``, whole in any case.
    """
    one, two = (each for each in IDS if each != stage.controller())
    stage.create(topic, (two, one), leader=one)
    stage.append(one, topic, b"m1")
    held = stage.failpoints(two).set("follower.fetch", "hold", peer=one)
    stage.await_hit(two, held, f"broker {two} stops fetching")
    stage.append(one, topic, b"a2", b"a3", acks=1)
    stopped = stage.failpoints(one).set("follower.fetch", "hold", peer=two)
    stage.elect_preferred(topic, two)
    stage.await_hit(one, stopped, f"broker {one} follows broker {two}")
    stage.append(two, topic, b"b2", b"b3", b"b4", acks=1)
    stage.kill(two)
    stage.await_leader(topic, one)
    stage.failpoints(one).release()
    stage.append(one, topic, b"c4", b"c5")
    stage.restart(two)
    stage.await_isr(topic, {one, two})
    stage.append(one, topic, b"c6")
    return stage.read(topic, until=b"c6")
