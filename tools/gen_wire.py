#!/usr/bin/env python3
"""Write wire/types.json and enums.json of corral/cluster/apiserver from Kubernetes' Go types.

The struct tags of the Go API types hold every fact of the wire: the JSON name, whether zero values
are left out, the Go type, and the protobuf field number. This reads them out of the module sources
(no Go program is run except ``go env`` to find them) and writes one compact file:

    messages  {"apps/v1.Deployment": [[name, number, flags, type], ...]}   fields in struct order
    named     {"core/v1.PullPolicy": "string"}                             other named types
    wrapped   ["meta/v1.Verbs"]         named lists that are a message of their own in protobuf
    kinds     {"apps/v1/Deployment": "apps/v1.Deployment"}                 by group/version/kind

``flags``: 1 omitempty, 2 omitzero, 4 embedded (then ``name`` is the Go name). ``type`` is written
as in Go, packages in full: ``*int32``, ``[]core/v1.Container``, ``map[string]resource.Quantity``.

A second file holds the values of the fields whose type is marked ``+enum``, by the names that
OpenAPI has for them; of a list or map they are the values of its items:

    {"io.k8s.api.core.v1.PodSpec": {"restartPolicy": ["Always", "Never", "OnFailure"]}}

Usage: python tools/gen_wire.py [--modules DIR] [--version v0.X.Y] [--output FILE] [--enums FILE]
where DIR holds k8s.io/api@VERSION and its sister modules (default: the Go module cache).
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

SERVER = Path(__file__).parent.parent / "corral/cluster/apiserver"
OUTPUT = SERVER / "wire/types.json"
ENUMS = SERVER / "enums.json"
MODULES = ("api", "apimachinery", "apiextensions-apiserver", "kube-aggregator", "metrics")
# Import path → the short name of the package in the output, for everything outside k8s.io/api.
PACKAGES = {
    "k8s.io/apimachinery/pkg/apis/meta/v1": "meta/v1",
    "k8s.io/apimachinery/pkg/runtime": "runtime",
    "k8s.io/apimachinery/pkg/types": "types",
    "k8s.io/apimachinery/pkg/util/intstr": "intstr",
    "k8s.io/apimachinery/pkg/api/resource": "resource",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1": "apiextensions/v1",
    "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1": "apiregistration/v1",
    "k8s.io/metrics/pkg/apis/metrics/v1beta1": "metrics/v1beta1",
}
# No server has offered these for years, and they would double the file.
GONE = {
    "apps/v1beta1", "apps/v1beta2", "batch/v1beta1", "discovery/v1beta1", "events/v1beta1",
    "extensions/v1beta1", "flowcontrol/v1beta1", "flowcontrol/v1beta2", "flowcontrol/v1beta3",
    "imagepolicy/v1alpha1", "node/v1alpha1", "node/v1beta1", "policy/v1beta1", "rbac/v1alpha1",
    "rbac/v1beta1", "apidiscovery/v2beta1",
}  # fmt: skip

OMITEMPTY, OMITZERO, EMBEDDED = 1, 2, 4

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.S | re.M)
_EMPTY = re.compile(r"^type (\w+) struct ?\{\}", re.M)
_NAMED = re.compile(r"^(?:type )?\s*(\w+) (=\s*)?([\w.\[\]*]+)$", re.M)
_FIELD = re.compile(r"^\s*(?:(\w+)\s+)?([\w.\[\]*]+)\s*(?:`([^`]*)`)?\s*$")
_TAG = re.compile(r'(\w+):"([^"]*)"')
_IMPORT = re.compile(r'^\s*(?:import )?(?:(\w+) )?"([\w./-]+)"$', re.M)
_ENUM = re.compile(r"((?:^//[^\n]*\n)+)type (\w+) string$", re.M)
# ``Name Type = "value"``, ``Name = Type("value")``, and another constant in the value's place.
_CONSTANT = re.compile(
    r'^(?:const|\t)\s*(\w+)(?:\s+(\w+)\s*=\s*|\s*=\s*(\w+)\()("[^"]*"|[\w.]+)\)?\s*$', re.M
)
_GROUP = re.compile(r'GroupName\s*=\s*"([^"]*)"')
_BASE = {
    "string", "bool", "int", "int32", "int64", "uint8", "uint32", "uint64", "float32", "float64",
    "byte", "rune",
}  # fmt: skip


@dataclass
class Package:
    """The types of one Go package, with every type name written in full."""

    key: str
    definitions: str
    """What the names of its OpenAPI definitions start with."""
    group: str | None = None
    structs: dict[str, list[list[object]]] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    proto: set[str] = field(default_factory=set)
    enums: set[str] = field(default_factory=set)
    constants: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Type and value of the constants; the value is a quoted string or a constant's full name."""


def packages(root: Path, version: str) -> Iterator[tuple[str, Path]]:
    """The (import path, folder) of every package to read."""
    api = root / f"api@{version}"
    for folder in sorted(p for p in api.glob("*/v*") if (p / "types.go").is_file()):
        if folder.relative_to(api).as_posix() not in GONE:
            yield f"k8s.io/api/{folder.relative_to(api).as_posix()}", folder
    for path in PACKAGES:
        module, _, inside = path.removeprefix("k8s.io/").partition("/")
        yield path, root / f"{module}@{version}" / inside


def key_of(import_path: str) -> str:
    return PACKAGES.get(import_path, import_path.removeprefix("k8s.io/api/"))


def read_package(import_path: str, folder: Path) -> Package:
    definitions = "io.k8s." + import_path.removeprefix("k8s.io/").replace("/", ".")
    package = Package(key_of(import_path), definitions)
    for file in sorted(folder.glob("*.go")):
        if re.search(r"^zz_|_test\.go$|generated|_fuzz\.go$|^fieldsv1_string\.go$", file.name):
            continue
        text = file.read_text()
        if match := _GROUP.search(text):
            package.group = match.group(1)
        package.enums |= {
            n for doc, n in _ENUM.findall(text) if re.search(r"^// ?\+enum$", doc, re.M)
        }
        read_file(package, _COMMENT.sub("", text))
    proto = folder / "generated.proto"
    if proto.is_file():
        package.proto = set(re.findall(r"^message (\w+) \{", proto.read_text(), re.M))
    return package


def read_file(package: Package, text: str) -> None:
    imports = {
        alias or path.rsplit("/", 1)[-1]: key_of(path) for alias, path in _IMPORT.findall(text)
    }
    for name, body in _STRUCT.findall(text):
        package.structs[name] = [f for f in (read_field(package.key, imports, line)
                                             for line in body.splitlines()) if f]  # fmt: skip
    package.structs.update((name, []) for name in _EMPTY.findall(text))
    for line in re.findall(r"^type [^\n{]*$", text, re.M):
        if match := _NAMED.match(line):
            package.named[match.group(1)] = full_type(package.key, imports, match.group(3))
    for name, declared, converted, value in _CONSTANT.findall(text):
        value = value if value[0] == '"' else full_type(package.key, imports, value)
        package.constants[name] = declared or converted, value


def read_field(key: str, imports: dict[str, str], line: str) -> list[object] | None:
    match = _FIELD.match(line)
    if not match or not line.strip():
        return None
    name, go_type, raw_tags = match.groups()
    tags = dict(_TAG.findall(raw_tags or ""))
    if not name and go_type[0].islower() and "." not in go_type:
        return None
    json_name, *options = tags.get("json", "").split(",")
    proto = tags.get("protobuf", "-").split(",")
    number = int(proto[1]) if len(proto) > 1 else 0
    if json_name == "-":
        return None
    flags = OMITEMPTY * ("omitempty" in options) | OMITZERO * ("omitzero" in options)
    if not json_name and (not name or "inline" in options):
        flags |= EMBEDDED
        json_name = name or go_type.rsplit(".", 1)[-1].lstrip("*")
    return [json_name or name, number, flags, full_type(key, imports, go_type)]


def full_type(key: str, imports: dict[str, str], go_type: str) -> str:
    """``go_type`` with the package of every name in it written in full."""
    if go_type.startswith("*"):
        return "*" + full_type(key, imports, go_type[1:])
    if go_type.startswith("[]"):
        return "[]" + full_type(key, imports, go_type[2:])
    if match := re.match(r"map\[([\w.]+)\](.+)", go_type):
        keys, values = (full_type(key, imports, part) for part in match.groups())
        return f"map[{keys}]{values}"
    if go_type in _BASE or go_type.startswith("["):
        return "uint8" if go_type == "byte" else go_type
    head, dot, name = go_type.rpartition(".")
    return f"{imports.get(head, head)}.{name}" if dot else f"{key}.{go_type}"


def names_in(go_type: str) -> list[str]:
    return re.findall(r"[\w/]+\.\w+", go_type)


def collect(found: list[Package]) -> dict[str, object]:
    """Everything that can be reached from a kind, sorted by name."""
    structs = {f"{p.key}.{n}": f for p in found for n, f in p.structs.items()}
    named = {f"{p.key}.{n}": t for p in found for n, t in p.named.items()}
    in_proto = {f"{p.key}.{n}" for p in found for n in p.proto}
    kinds: dict[str, str] = {}
    for p in found:
        for name, fields in p.structs.items():
            is_kind = any(f[0] == "TypeMeta" and f[3] == "meta/v1.TypeMeta" for f in fields)
            if is_kind and p.group is not None:
                version = p.key.rsplit("/", 1)[-1]
                kinds[f"{p.group}/{version}/{name}"] = f"{p.key}.{name}"
    todo, seen = sorted(kinds.values()), set[str]()
    while todo:
        name = todo.pop()
        if name in seen or (name not in structs and name not in named):
            continue
        seen.add(name)
        types = [str(f[3]) for f in structs[name]] if name in structs else [named[name]]
        todo += [n for t in types for n in names_in(t)]
    return {
        "kinds": dict(sorted(kinds.items())),
        "messages": {n: structs[n] for n in sorted(seen & structs.keys())},
        "named": {n: named[n] for n in sorted(seen & named.keys())},
        "wrapped": sorted(n for n in seen & named.keys() & in_proto if named[n].startswith("[]")),
    }


def enum_values(found: list[Package]) -> dict[str, list[str]]:
    """The values of every type that is marked as an enum, and of its aliases."""
    constants = {f"{p.key}.{n}": value for p in found for n, (_, value) in p.constants.items()}
    values: dict[str, set[str]] = {f"{p.key}.{n}": set() for p in found for n in p.enums}
    for p in found:
        for type_name, value in p.constants.values():
            if (enum := values.get(f"{p.key}.{type_name}")) is not None:
                enum.add(json.loads(constants.get(value, value)))
    aliases = {f"{p.key}.{n}": t for p in found for n, t in p.named.items() if t in values}
    values |= {name: values[target] for name, target in aliases.items()}
    return {name: sorted(enum) for name, enum in values.items()}


def collect_enums(
    found: list[Package], messages: dict[str, list[list[object]]]
) -> dict[str, object]:
    """The values of every field of an enum type in ``messages``, by definition and field."""
    values = enum_values(found)

    def fields(name: str) -> Iterator[tuple[str, list[str]]]:
        for json_name, _, flags, go_type in messages.get(name, ()):
            item = re.sub(r"^(?:\*|\[\]|map\[[^\]]*\])+", "", str(go_type))
            if isinstance(flags, int) and flags & EMBEDDED:
                yield from fields(item)
            elif item in values:
                yield str(json_name), values[item]

    enums = {
        f"{p.definitions}.{name}": dict(sorted(fields(f"{p.key}.{name}")))
        for p in found
        for name in p.structs
    }
    return {name: by_field for name, by_field in sorted(enums.items()) if by_field}


def rows(entries: dict[str, object]) -> str:
    return ",\n".join(
        f"{json.dumps(k)}:{json.dumps(v, separators=(',', ':'))}" for k, v in entries.items()
    )


def write(data: dict[str, object], output: Path) -> None:
    """One line per entry: small enough to load fast, and still readable as a diff."""
    lines = ["{"]
    for section, entries in data.items():
        lines.append(f'"{section}":' + ("{" if isinstance(entries, dict) else "["))
        if isinstance(entries, dict):
            lines.append(rows(entries))
        else:
            lines.append(",\n".join(json.dumps(v) for v in entries))  # type: ignore[attr-defined]
        lines.append("}," if isinstance(entries, dict) else "],")
    lines[-1] = lines[-1].rstrip(",")
    output.write_text("\n".join([*lines, "}"]) + "\n")


def module_cache() -> Path:
    cache = subprocess.run(
        ["go", "env", "GOMODCACHE"], check=True, capture_output=True, text=True
    ).stdout.strip()
    return Path(cache) / "k8s.io"


def newest(root: Path) -> str:
    """The newest version of which every needed module is there."""

    def number(version: str) -> list[int]:
        return [int(part) for part in re.findall(r"\d+", version)]

    versions = {p.name.split("@")[1] for p in root.glob("api@v*")}
    whole = [v for v in versions if all((root / f"{m}@{v}").is_dir() for m in MODULES)]
    if not whole:
        sys.exit(f"no complete set of {', '.join(MODULES)} under {root}")
    return max(whole, key=number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--modules", type=Path, help="folder that holds api@VERSION and the rest")
    parser.add_argument("--version", help="module version, e.g. v0.37.1 (default: the newest)")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--enums", type=Path, default=ENUMS)
    args = parser.parse_args()
    root = args.modules or module_cache()
    version = args.version or newest(root)
    found = [read_package(path, folder) for path, folder in packages(root, version)]
    data = collect(found)
    write(data, args.output)
    enums = collect_enums(found, data["messages"])  # type: ignore[arg-type]
    args.enums.write_text(f"{{\n{rows(enums)}\n}}\n")


if __name__ == "__main__":
    main()
