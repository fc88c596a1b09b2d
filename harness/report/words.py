"""The verdict in words, the same on the page and in the terminal."""

from __future__ import annotations

import shlex
from pathlib import Path

from checkers.result import Finding, Judgement, Verdict
from harness.report import figures

TITLES = {
    Verdict.VALID: "Valid",
    Verdict.INVALID: "Invalid",
    Verdict.UNKNOWN: "Unknown",
    Verdict.NOT_EXERCISED: "Not exercised",
}

MEANINGS = {
    Verdict.VALID: "Every promise that these settings make held, and the run did enough for that to count.",
    Verdict.INVALID: "The cluster broke a promise that these settings make.",
    Verdict.UNKNOWN: "Something could not be decided. This proves neither a violation nor safety.",
    Verdict.NOT_EXERCISED: "The run did too little for its silence to mean anything.",
}


def meaning(judgement: Judgement) -> str:
    """What the verdict means, for someone who sees it for the first time."""
    if judgement.verdict is Verdict.INVALID and not violated(judgement):
        return "The run is meant to show an anomaly, and it did not show."
    return MEANINGS[judgement.verdict]


def violated(judgement: Judgement) -> list[Finding]:
    return [each for each in judgement.findings if each.fatal]


def summary(judgement: Judgement) -> str:
    """One sentence that says what was found."""
    broken = violated(judgement)
    if broken:
        named = ", ".join(f"{each.anomaly} ({figures.count(each.fatal_count)})" for each in broken)
        return f"{figures.plural(len(broken), 'guarantee')} violated: {named}."
    if judgement.verdict is not Verdict.VALID and judgement.reasons:
        return judgement.reasons[0]
    observed = [each for each in judgement.findings if each.count]
    if observed:
        named = ", ".join(f"{each.anomaly} ({figures.count(each.count)})" for each in observed)
        return f"No guarantee was violated; observed where none was given: {named}."
    return "No guarantee was violated, and no anomaly was seen."


def replay_command(judgement: Judgement, run_folder: Path | None) -> str:
    """What to type to see this again: the run from its stored plan, or the judging of a history."""
    seed = judgement.meta.get("seed")
    if run_folder is not None and judgement.meta.get("origin") == "run":
        command = ["tidemark", "run", str(run_folder / "plan.toml")]
        return shlex.join(command if seed is None else [*command, "--seed", str(seed)])
    return shlex.join(["tidemark", "check", judgement.path])
