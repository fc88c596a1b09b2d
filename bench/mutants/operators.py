"""Every mutant of a module's source, made from its syntax tree, each one small change away from it.

Nothing here knows the checkers: whatever comparison, condition, mask, constant, slice or sort key stands in the
source gives its mutants. A mutant is named by its function, the expression that changed and what it became,
so that the name outlives a change of line numbers.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

Step = tuple[str, int | None]
"""A place in the tree is the list of fields and indexes that lead to it."""

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPPOSITE = {
    "minimum": "maximum", "maximum": "minimum", "min": "max", "max": "min", "any": "all", "all": "any",
    "left": "right", "right": "left", "ones": "zeros", "zeros": "ones",
}  # fmt: skip
"""Names of functions, and the two sides of a search."""
_SHOWN = 90
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    module: str
    """Dotted name."""
    name: str
    """Unique among all mutants."""
    line: int
    source: ast.Module
    path: tuple[Step, ...]
    """To the node that changes, from the root of ``source``."""
    replacement: ast.AST | None

    @property
    def tree(self) -> ast.Module:
        """The whole module with the one change; what did not change is shared with ``source``."""
        return ast.fix_missing_locations(_replaced(self.source, self.path, self.replacement))


def _window(before: str, after: str) -> tuple[str, str]:
    """Of two long texts only the part that differs, with a little around it."""
    if max(len(before), len(after)) <= _SHOWN:
        return before, after
    same = next(
        (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )
    tail = next(
        (n for n, (a, b) in enumerate(zip(reversed(before[same:]), reversed(after[same:]), strict=False)) if a != b),
        min(len(before), len(after)) - same,
    )

    def cut(text: str) -> str:
        start, end = max(0, same - 30), min(len(text), len(text) - tail + 30)
        middle = text[start:end]
        middle = middle if len(middle) <= 2 * _SHOWN else f"{middle[:_SHOWN]} ... {middle[-60:]}"
        return f"{'...' if start else ''}{middle}{'...' if end < len(text) else ''}"

    return cut(before), cut(after)


def mutants_of(module: str, source: str) -> list[Mutant]:
    tree = ast.parse(source)
    found: list[Mutant] = []
    seen: dict[str, int] = {}
    skipped = _not_code(tree)
    for path, function, node in _nodes(tree):
        if id(node) in skipped:
            continue
        before = None
        for replacement in _replacements(node):
            before = before or _text(node)
            after = "nothing" if replacement is None else _text(replacement)
            if before == after:
                continue
            name = f"{module.split('.')[-1]}.{function}: {' => '.join(_window(before, after))}"
            seen[name] = seen.get(name, 0) + 1
            again = f" #{seen[name]}" if seen[name] > 1 else ""
            found.append(Mutant(module, name + again, getattr(node, "lineno", 0), tree, tuple(path), replacement))
    return found


def _nodes(tree: ast.Module) -> Iterator[tuple[list[Step], str, ast.AST]]:
    def walk(node: ast.AST, path: list[Step], function: str) -> Iterator[tuple[list[Step], str, ast.AST]]:
        yield path, function, node
        inner = function
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            inner = node.name if function == "module" else f"{function}.{node.name}"
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.AST):
                yield from walk(value, [*path, (field, None)], inner)
            elif isinstance(value, list):
                for index, each in enumerate(value):
                    if isinstance(each, ast.AST):
                        yield from walk(each, [*path, (field, index)], inner)

    return walk(tree, [], "module")


Node = TypeVar("Node", bound=ast.AST)


def _replaced(node: Node, path: Sequence[Step], replacement: ast.AST | None) -> Node:
    """Only the nodes on the path are copied."""
    (field, index), rest = path[0], path[1:]
    changed = copy.copy(node)
    value = getattr(node, field)
    old = value if index is None else value[index]
    new = _replaced(old, rest, replacement) if rest else replacement
    if index is None:
        setattr(changed, field, new)
        return changed
    others = list(value)
    if new is None and len(others) > 1:
        del others[index]
    else:
        others[index] = ast.Pass() if new is None else new
    setattr(changed, field, others)
    return changed


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


def _not_code(tree: ast.Module) -> set[int]:
    """Docstrings, annotations, imports, assertions, raised messages and texts for people: changing them breaks no
    condition."""
    outside: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts = [node]
        elif isinstance(node, ast.AnnAssign):
            parts = [node] if _text(node.annotation) == "TypeAlias" else [node.annotation]
        elif isinstance(node, ast.FunctionDef):
            arguments = [*node.args.args, *node.args.kwonlyargs]
            parts = [*(a.annotation for a in arguments if a.annotation), *([node.returns] if node.returns else [])]
            parts += node.decorator_list
        elif isinstance(node, ast.ClassDef):
            parts = list(node.decorator_list)
        elif _says_nothing(node):
            parts = [node]
        for part in parts:
            outside |= {id(each) for each in ast.walk(part)}
    return outside


def _says_nothing(node: ast.AST) -> bool:
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.Assert() | ast.Import() | ast.ImportFrom():
            return True
        case ast.keyword(arg="strict"):  # an assertion of zip
            return True
        case ast.If():
            return _text(node.test) == "TYPE_CHECKING"
    return False


# What a node can become


def _replacements(node: ast.AST) -> Iterator[ast.AST | None]:
    match node:
        case ast.Compare():
            yield from _compare(node)
        case ast.BoolOp():
            yield from _boolean(node)
        case ast.BinOp():
            yield from _binary(node)
        case ast.UnaryOp(op=ast.Invert() | ast.Not() | ast.USub()):
            yield node.operand
        case ast.Constant():
            yield from _constant(node)
        case ast.If() | ast.IfExp():
            negated = copy.deepcopy(node)
            negated.test = ast.UnaryOp(ast.Not(), node.test)
            yield negated
            if isinstance(node, ast.If):
                yield from _decided(node)
        case ast.comprehension():
            for index in range(len(node.ifs)):
                dropped = copy.deepcopy(node)
                del dropped.ifs[index]
                yield dropped
                negated_if = copy.deepcopy(node)
                negated_if.ifs[index] = ast.UnaryOp(ast.Not(), node.ifs[index])
                yield negated_if
        case ast.Call():
            yield from _call(node)
        case ast.Slice():
            yield from _slice(node)
        case ast.Attribute() if node.attr in _OPPOSITE:
            yield ast.Attribute(node.value, _OPPOSITE[node.attr], node.ctx)
        case ast.AugAssign():
            yield None
        case ast.Assign(targets=[ast.Subscript()]):
            yield None
        case ast.Return(value=ast.List() | ast.Dict()):
            pass
        case ast.Dict() if len(node.keys) > 1:
            for index in range(len(node.keys)):
                shorter = copy.deepcopy(node)
                del shorter.keys[index], shorter.values[index]
                yield shorter
        case ast.List() | ast.Set() | ast.Tuple() if len(node.elts) > 1 and _is_loaded(node):
            for index in range(len(node.elts)):
                fewer = copy.deepcopy(node)
                del fewer.elts[index]
                yield fewer


def _is_loaded(node: ast.List | ast.Set | ast.Tuple) -> bool:
    return isinstance(node, ast.Set) or isinstance(node.ctx, ast.Load)


def _decided(node: ast.If) -> Iterator[ast.AST]:
    """The condition always holds, or never."""
    for constant in (True, False):
        decided = copy.deepcopy(node)
        decided.test = ast.Constant(constant)
        yield decided


def _compare(node: ast.Compare) -> Iterator[ast.AST]:
    for index, operator in enumerate(node.ops):
        for other in _COMPARED[type(operator)]:
            changed = copy.deepcopy(node)
            changed.ops[index] = other()
            yield changed


def _boolean(node: ast.BoolOp) -> Iterator[ast.AST]:
    for index in range(len(node.values)):
        changed = copy.deepcopy(node)
        del changed.values[index]
        yield changed.values[0] if len(changed.values) == 1 else changed
    swapped = copy.deepcopy(node)
    swapped.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield swapped


def _binary(node: ast.BinOp) -> Iterator[ast.AST]:
    if isinstance(node.op, ast.BitAnd | ast.BitOr):
        yield node.left
        yield node.right
    other = _ARITHMETIC.get(type(node.op))
    if other is not None:
        changed = copy.deepcopy(node)
        changed.op = other()
        yield changed


def _constant(node: ast.Constant) -> Iterator[ast.AST]:
    value = node.value
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int | float):
        yield ast.Constant(value + 1)
        if value == 1:
            yield ast.Constant(0)
    elif isinstance(value, str) and value in ("left", "right"):
        yield ast.Constant(_OPPOSITE[value])


def _call(node: ast.Call) -> Iterator[ast.AST]:
    if isinstance(node.func, ast.Name) and node.func.id in _OPPOSITE:
        changed = copy.deepcopy(node)
        changed.func = ast.Name(_OPPOSITE[node.func.id], ast.Load())
        yield changed
    if isinstance(node.func, ast.Attribute) and node.func.attr == "where" and len(node.args) == 3:
        yield node.args[1]
        yield node.args[2]


def _slice(node: ast.Slice) -> Iterator[ast.AST]:
    """``[1:]`` and ``[:-1]``: each neighbour for the other."""
    last = ast.UnaryOp(ast.USub(), ast.Constant(1))
    if node.upper is None and isinstance(node.lower, ast.Constant) and node.lower.value == 1:
        yield ast.Slice(None, last, None)
    elif node.lower is None and node.upper is not None and ast.unparse(node.upper) == "-1":
        yield ast.Slice(ast.Constant(1), None, None)
