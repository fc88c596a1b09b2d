"""``tidemark doctor``: what this machine has and lacks, each with its remedy."""

from __future__ import annotations

import argparse
from typing import Any


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "doctor",
        help="what this machine has and lacks, each with its remedy",
        description="Look for everything that Tidemark needs or can use. Exit code 0 when nothing that it needs lacks, "
        "else 70.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    import json
    from dataclasses import asdict

    from harness.doctor import examine
    from harness.exits import Exit

    findings = examine()
    healthy = all(each.ok or not each.needed for each in findings)
    if options.json:
        print(json.dumps({"ok": healthy, "findings": [asdict(each) for each in findings]}, ensure_ascii=False))
        return Exit.VALID if healthy else Exit.HARNESS
    width = max(len(each.name) for each in findings)
    for each in findings:
        state = "ok" if each.ok else "lacks" if each.needed else "without"
        print(f"{state:8}{each.name:{width}}  {each.found}")
        if not each.ok:
            print(f"{'':8}{'':{width}}  → {each.remedy}")
    print()
    print("Everything that Tidemark needs is here." if healthy else "Something that Tidemark needs is lacking.")
    return Exit.VALID if healthy else Exit.HARNESS
