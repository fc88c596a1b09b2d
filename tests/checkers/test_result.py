"""What a judgement says to a program."""

from __future__ import annotations

from checkers.cycles.models import RuledOut
from checkers.result import Example, Finding, Judgement, Verdict


def test_exit_codes() -> None:
    assert {each: each.exit_code for each in Verdict} == {
        Verdict.VALID: 0,
        Verdict.INVALID: 1,
        Verdict.UNKNOWN: 2,
        Verdict.NOT_EXERCISED: 3,
    }


def test_one_fatal_case_makes_a_finding_fatal() -> None:
    assert Finding("phantom", 9, 1, ()).fatal
    assert not Finding("phantom", 9, 0, ()).fatal


def test_the_document() -> None:
    example = Example(True, "It is gone.", ({"op": 1},), 2, 3, 4)
    judgement = Judgement(
        "runs/x", Verdict.INVALID, (Finding("lost-write", 5, 1, (example,)),), ("why",), {"sent": 6}, (), ("idle",),
        seconds=1.23456,
    )  # fmt: skip
    assert judgement.document() == {
        "path": "runs/x",
        "verdict": "invalid",
        "anomalies": {
            "lost-write": {
                "count": 5,
                "fatal": True,
                "fatal_count": 1,
                "examples": [
                    {
                        "fatal": True,
                        "sentence": "It is gone.",
                        "key": 2,
                        "value": 3,
                        "offset": 4,
                        "evidence": [{"op": 1}],
                    }
                ],
            }
        },
        "reasons": ["why"],
        "not_exercised": ["idle"],
        "metrics": {"sent": 6},
        "seconds": 1.235,
    }
    assert Judgement("", Verdict.VALID, (), (), {}).document()["seconds"] == 0.0
    assert Judgement("", Verdict.UNKNOWN, (), (), {}, crash="trace").document()["crash"] == "trace"


def test_the_document_of_transactions() -> None:
    edge = {"from": 1, "to": 2, "kind": "ww"}
    example = Example(True, "In a circle.", (), cycle=(edge,))
    judgement = Judgement(
        "runs/x", Verdict.INVALID, (Finding("G0", 1, 1, (example,)),), (), {}, models=RuledOut(("weak",), ("strong",)),
    )  # fmt: skip
    document = judgement.document()
    assert document["anomalies"]["G0"]["examples"][0]["cycle"] == [edge]
    assert (document["models_ruled_out"], document["also_ruled_out"]) == (["weak"], ["strong"])
