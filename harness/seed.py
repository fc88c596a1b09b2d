"""One seed for a whole run, forked by stable names: what one part draws never shifts what another draws."""

from __future__ import annotations

import hashlib
import random
import secrets
from dataclasses import dataclass


@dataclass(frozen=True)
class Seed:
    value: int

    @staticmethod
    def drawn() -> Seed:
        """A new one, short enough to type."""
        return Seed(secrets.randbelow(2**31 - 1) + 1)

    def fork(self, name: str) -> Seed:
        digest = hashlib.blake2b(f"{self.value}/{name}".encode(), digest_size=7).digest()
        return Seed(int.from_bytes(digest, "big"))

    def random(self) -> random.Random:
        return random.Random(self.value)
