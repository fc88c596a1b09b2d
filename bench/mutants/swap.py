"""A mutated module in the place of the real one, in this process, for as long as it is tried."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from bench.mutants.operators import Mutant


@contextmanager
def swapped(mutant: Mutant | None, fresh: tuple[str, ...]) -> Iterator[None]:
    """Every module below ``fresh`` is imported anew, with the mutant among them; afterwards all is as before."""
    saved = _taken_out(fresh)
    try:
        if mutant is not None:
            _put_in(mutant)
        yield
    finally:
        _taken_out(fresh)
        sys.modules.update(saved)


def _taken_out(fresh: tuple[str, ...]) -> dict[str, ModuleType]:
    names = [name for name in sys.modules if any(name == each or name.startswith(f"{each}.") for each in fresh)]
    return {name: sys.modules.pop(name) for name in names}


def _put_in(mutant: Mutant) -> None:
    package, _, leaf = mutant.module.rpartition(".")
    parent = importlib.import_module(package)
    spec = importlib.util.find_spec(mutant.module)
    assert spec is not None
    assert spec.origin is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[mutant.module] = module
    exec(compile(mutant.tree, spec.origin, "exec"), module.__dict__)
    setattr(parent, leaf, module)
