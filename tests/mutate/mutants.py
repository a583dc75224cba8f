"""Programs that differ from poolcli in one place: what a test run that means anything must notice."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

Node = Any  # of any kind: what is done to it depends on its class
Change = tuple[str, Callable[[Node], ast.AST]]

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult, ast.Mod: ast.Mult,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Pow: ast.Mult,
}  # fmt: skip


TYPES = ("TypeVar(", "tuple[", "Literal[", "Callable[", "Sliding | Bins")
# Functions whose arguments may change places.
SYMMETRIC = ("max", "min", "gcd", "_at_most", "_at_least", "builder.and_", "builder.add", "builder.fma", "filecmp.cmp")


@dataclass(frozen=True)
class Mutant:
    """One change: where it is, what it is, and what gives the whole text of the file with it."""

    path: str
    function: str
    line: int
    change: str
    text: Callable[[], str]

    @property
    def name(self) -> str:
        """What stays the same when lines move: the file, the function and the change."""
        return f"{self.path}::{self.function}: {self.change}"


def mutants(path: str, text: str) -> list[Mutant]:
    """Every mutant of a file; of changes that read alike within a function, the first."""
    tree, found = ast.parse(text), dict[str, Mutant]()
    for function, parent, name, index, node in list(_places(tree)):
        for kind, change in _changes(node, name):
            made = change(node)
            write = partial(_with, tree, parent, name, index, made)
            what = f"{kind}: {_short(ast.unparse(node))} -> {_short(ast.unparse(ast.fix_missing_locations(made)))}"
            mutant = Mutant(path, function, node.lineno, what, write)
            found.setdefault(mutant.name, mutant)
    return list(found.values())


def _with(tree: ast.Module, parent: ast.AST, name: str, index: int | None, made: ast.AST) -> str:
    """The text of the tree with `made` in place of a node, which is put back."""
    held = getattr(parent, name)
    if index is None:
        setattr(parent, name, made)
    else:
        setattr(parent, name, [*held[:index], made, *held[index + 1 :]])
    try:
        return ast.unparse(tree)
    finally:
        setattr(parent, name, held)


def _places(tree: ast.Module) -> Iterator[tuple[str, ast.AST, str, int | None, Node]]:
    """Every node that may be changed: the function that it is in, its parent, and the field and index there."""

    def walk(parent: ast.AST, function: str) -> Iterator[tuple[str, ast.AST, str, int | None, Node]]:
        for name, value in ast.iter_fields(parent):
            if name in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            children = enumerate(value) if isinstance(value, list) else [(None, value)]
            for index, child in children:
                if not isinstance(child, ast.AST) or _is_left_alone(child):
                    continue
                yield function, parent, name, index, child
                inner = getattr(child, "name", "") if isinstance(child, ast.FunctionDef | ast.ClassDef) else ""
                yield from walk(child, f"{function}.{inner}".strip(".") if inner else function)

    return walk(tree, "")


def _is_left_alone(node: ast.AST) -> bool:
    """Imports, types, documentation, and the texts of messages."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr):
        return True
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith(TYPES):
        return True
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _changes(node: Node, field: str) -> list[Change]:
    """What can be done to a node."""
    found: list[Change] = []
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        other = COMPARISONS[type(node.ops[0])]
        found.append(("comparison", lambda n: ast.Compare(n.left, [other()], n.comparators)))
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        operator = ARITHMETIC[type(node.op)]
        found.append(("arithmetic", lambda n: ast.BinOp(n.left, operator(), n.right)))
    if isinstance(node, ast.Constant) and type(node.value) is int:
        found.append(("number", lambda n: ast.Constant(n.value + 1)))
        found.append(("number", lambda n: ast.Constant(n.value - 1)))
    if isinstance(node, ast.BoolOp):
        word = ast.Or if isinstance(node.op, ast.And) else ast.And
        found.append(("and, or", lambda n: ast.BoolOp(word(), n.values)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        found.append(("not", lambda n: n.operand))
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        found.append(("condition", _negated))
    if isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        found.append(("return", lambda n: ast.Return(ast.Constant(None))))
    if isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.Raise) and field in ("body", "orelse"):
        found.append(("statement", lambda n: ast.Pass()))
    if isinstance(node, ast.Call) and len(node.args) > 1 and not _is_symmetric(node):
        found.append(("arguments", lambda n: ast.Call(n.func, [n.args[1], n.args[0], *n.args[2:]], n.keywords)))
    return found


def _is_symmetric(call: ast.Call) -> bool:
    """Whether the call is the same after an exchange of its first two arguments."""
    return ast.unparse(call.func) in SYMMETRIC or ast.unparse(call.args[0]) == ast.unparse(call.args[1])


def _negated(node: Node) -> ast.AST:
    test = ast.UnaryOp(ast.Not(), node.test)
    if isinstance(node, ast.IfExp):
        return ast.IfExp(test, node.body, node.orelse)
    kind: type[ast.If | ast.While] = type(node)
    return kind(test, node.body, node.orelse)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _short(text: str) -> str:
    """The first line, at most 60 characters of it."""
    line = text.split("\n")[0]
    return line if len(line) <= 60 else line[:57] + "..."
