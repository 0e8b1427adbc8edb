"""What README.md and docs/ name exists: files, links, modules, kinds, commands, flags."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import shlex
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer.main
import yaml

from corral.api import kind_of
from corral.cli import main, odh
from tests.support.pages import BLOCK, PAGES, ROOT, blocks, text

FOLDERS = ("corral", "docs", "tests", "examples", "bench", "tools", "requirements", "proto")
GENERATED = ("corral/v1/",)
OTHERS = {"corral/courier", "corral/api/GROUP/"}
"""The name of an image, and one to fill in."""
ARGUMENTS = re.compile(r"<[^>]*>|\[|\]|…")


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_exist(page: str) -> None:
    named = set(re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*)`", text(page)))
    missing = {name for name in named - OTHERS if not (ROOT / name).exists()}
    assert {name for name in missing if not name.startswith(GENERATED)} == set()


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text(page))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not ((ROOT / page).parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_python_examples_compile_and_import(page: str) -> None:
    for source in blocks(page, "python"):
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        source = textwrap.dedent(source)
        if source.startswith("return"):  # the end of a function
            source = "def example():\n" + textwrap.indent(source, "    ")
        tree = compile(source, page, "exec", flags | ast.PyCF_ONLY_AST)
        compile(source, page, "exec", flags)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("corral"):
                module = importlib.import_module(str(node.module))
                assert [n.name for n in node.names if not offered(module, n.name)] == []


def offered(module: Any, name: str) -> bool:
    if hasattr(module, name):
        return True
    return importlib.util.find_spec(f"{module.__name__}.{name}") is not None


@pytest.mark.parametrize("page", PAGES)
def test_modules_that_are_named_exist(page: str) -> None:
    for dotted in set(re.findall(r"`(corral(?:\.(?!dev\b)\w+)+)`", text(page))):
        assert exists(dotted), dotted


def exists(dotted: str) -> bool:
    """Whether it is a module, a name in one, or a message of the protos."""
    try:
        if importlib.util.find_spec(dotted) is not None:
            return True
    except ModuleNotFoundError:
        pass  # what is before the last dot is no package
    module, _, name = dotted.rpartition(".")
    if module == "corral.v1":
        protos = (ROOT / "corral" / "v1").glob("*.proto")
        return any(re.search(rf"^(message|service) {name}\b", p.read_text(), re.M) for p in protos)
    return bool(module) and exists(module) and hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize("page", PAGES)
def test_manifests_are_valid(page: str) -> None:
    """Kinds of ours in an example are what their models take."""
    for source in blocks(page, "yaml"):
        for document in yaml.safe_load_all(source):
            if not isinstance(document, dict) or "spec" not in document:
                continue
            kind = kind_of(document)
            assert kind is None or kind.validate(document) == []


# --- commands -----------------------------------------------------------------------------------


@cache
def programs() -> dict[str, Any]:
    return {"corral": typer.main.get_command(main.app), "odh": typer.main.get_command(odh.app)}


def commands(page: str) -> Iterator[str]:
    """Every line of an example, and every piece of a sentence, that is a command of ours."""
    for source in blocks(page, "", "sh"):
        joined = source.replace("\\\n", " ")
        for line in joined.splitlines():
            for part in re.split(r" && |; | \| |<\(|\)$", line.split(" #")[0]):
                if part.strip().startswith(("corral ", "odh ")):
                    yield part.strip()
    prose = BLOCK.sub("", text(page))
    yield from re.findall(r"`((?:corral|odh) (?!is ready)[a-z][^`\n]*)`", prose)


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that the words lead to, and those that are left."""
    found, rest = programs()[words[0]], words[1:]
    while hasattr(found, "commands") and rest and not rest[0].startswith("-"):
        names = rest[0].split("|")
        unknown = [name for name in names if name not in found.commands]
        assert not unknown, f"no command {unknown} in {' '.join(words)!r}"
        found, rest = found.commands[names[0]], rest[1:]
    return found, rest


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_flags_exist(page: str) -> None:
    for line in commands(page):
        words = shlex.split(ARGUMENTS.sub(" ", line), comments=True)
        command, rest = command_of(words)
        before = rest[: rest.index("--")] if "--" in rest else rest
        flags = [re.split(r"[=|]", word)[0] for word in before if re.match(r"--?[a-z]", word)]
        known = {opt for p in command.params for opt in (*p.opts, *p.secondary_opts)} | {"--help"}
        assert [flag for flag in flags if flag not in known] == [], line


def test_commands_are_found_at_all() -> None:
    """The pattern above sees the commands of these pages."""
    found = {line.split()[1] for page in PAGES for line in commands(page)}
    assert {"up", "run", "install", "fl", "spot", "describe"} <= found
