#!/usr/bin/env python3
"""Write proto/corral/v1/*.proto of single kinds, and the stubs of all of them in corral/v1.

By hand are value, errors, objects, status and jobs.proto. This makes core.proto (the types of
Kubernetes that pod templates are made of, from the file that `gen_wire.py` writes), one file for
each kind that has a schema (its messages, and its service after the model of JobService), and from
all of them what protoc makes for Python. Field numbers are kept in proto/numbers.json.

Usage: python tools/gen_proto.py            write everything
       python tools/gen_proto.py --check    write nothing; fail where something is out of date
       python tools/gen_proto.py --record   also make proto/recorded.binpb what is there now:
                                            later versions may not break it
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.descriptor_pb2 import (  # type: ignore[import-untyped]
    FileDescriptorProto,
    FileDescriptorSet,
)
from grpc_tools import protoc
from proto_messages import CoreTypes, Message, Numbers, emit, from_schema, snake
from proto_services import service

ROOT = Path(__file__).parent.parent
PROTO = ROOT / "proto"
PACKAGE = "corral/v1"
STUBS = ROOT / "corral/v1"
RECORDED = PROTO / "recorded.binpb"
NUMBERS = PROTO / "numbers.json"
WIRE = ROOT / "corral/cluster/apiserver/wire/types.json"
BY_HAND = ("value", "errors", "objects", "status", "jobs")
ROOT_TYPES = ("core/v1.PodTemplateSpec", "meta/v1.LabelSelector")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        files = _make(Path(folder))
    if options.check:
        return _check(files)
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if options.record:
        now = described(PROTO)
        for file in now.file:
            file.ClearField("source_code_info")
        RECORDED.write_bytes(now.SerializeToString(deterministic=True))
    return 0


def _check(files: dict[Path, bytes]) -> int:
    stale = [path for path, content in files.items() if not _same(path, content)]
    for path in stale:
        print(f"{path.relative_to(ROOT)} is out of date: run python tools/gen_proto.py")
    return 1 if stale else 0


def _same(path: Path, content: bytes) -> bool:
    """Stubs say which protoc made them; what they describe is compared elsewhere."""
    return path.exists() and (STUBS in path.parents or path.read_bytes() == content)


def _make(folder: Path) -> dict[Path, bytes]:
    """Every file that is made, with its content."""
    files = {PROTO / PACKAGE / f"{name}.proto": text for name, text in _protos()}
    numbers = json.dumps(_NUMBERS.recorded, indent=1) + "\n"
    sources = folder / "proto"
    (sources / PACKAGE).mkdir(parents=True)
    for name in BY_HAND:
        (sources / PACKAGE / f"{name}.proto").write_bytes(
            (PROTO / PACKAGE / f"{name}.proto").read_bytes()
        )
    for path, text in files.items():
        (sources / PACKAGE / path.name).write_text(text)
    out = folder / "out"
    out.mkdir()
    _protoc(sources, f"--python_out={out}", f"--pyi_out={out}", f"--grpc_python_out={out}")
    made = {path: text.encode() for path, text in files.items()} | {NUMBERS: numbers.encode()}
    for path in sorted((out / PACKAGE).iterdir()):
        # Files without a service would only get an empty module beside their messages.
        if not path.name.endswith("_grpc.py") or b"class " in path.read_bytes():
            made[STUBS / path.name] = path.read_bytes()
    return made


_NUMBERS = Numbers(json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {})


def _protos() -> Iterator[tuple[str, str]]:
    sys.path.insert(0, str(ROOT))
    from corral.api import all_kinds

    core = CoreTypes(json.loads(WIRE.read_text())).closure(*ROOT_TYPES)
    yield "core", _file("Types of Kubernetes that objects of ours are made of.", core)
    jobs = next(file for file in described(PROTO, "jobs").file if file.name.endswith("/jobs.proto"))
    for kind in all_kinds():
        names = kind.names
        yield snake(names.kind), _kind(names.kind, kind.schema(), jobs)


def _kind(kind: str, schema: dict[str, object], jobs: FileDescriptorProto) -> str:
    whole = from_schema(kind, schema)
    # Spec and status are messages of their own, as people know them.
    messages = [whole]
    for part in whole.nested:
        part.name = f"{kind}{part.name}"
        messages.append(part)
    for entry in whole.fields:
        if entry.json in ("spec", "status") and entry.type in ("Spec", "Status"):
            entry.type = f"{kind}{entry.type}"
    whole.nested = []
    lines = service(jobs, kind, offers=lambda method: _offers(kind, method))
    text = _file(f"{kind} and its service.", messages, "core", "jobs", "objects", "status")
    return text + "\n" + "\n".join(lines) + "\n"


def _offers(kind: str, method: str) -> bool:
    from corral.jobs.kinds import kind_of

    known = kind_of(kind)
    return {
        "GetLogs": known.pod_selector is not None,
        "Restart": known.restartable,
        "Suspend": known.suspendable,
        "Resume": known.suspendable,
        "Scale": known.scalable,
        "GetMetrics": known.learns,
    }.get(method, True)


def _file(title: str, messages: list[Message], *imports: str) -> str:
    lines = [
        f"// {title}",
        "//",
        "// Made by tools/gen_proto.py: do not edit.",
        'syntax = "proto3";',
        "",
        "package corral.v1;",
        "",
    ]
    lines += [f'import "{PACKAGE}/{name}.proto";' for name in sorted({*imports, "value"})]
    for message in messages:
        lines += ["", *emit(message, _NUMBERS)]
    return "\n".join(lines) + "\n"


def described(sources: Path, *names: str) -> FileDescriptorSet:
    """What protoc reads in the sources, comments included."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set.binpb"
        _protoc(sources, f"--descriptor_set_out={out}", "--include_source_info", names=names)
        return FileDescriptorSet.FromString(out.read_bytes())


def _protoc(sources: Path, *options: str, names: tuple[str, ...] = ()) -> None:
    well_known = Path(protoc.__file__).parent / "_proto"
    files = sorted((sources / PACKAGE).glob("*.proto"))
    chosen = [str(path) for path in files if not names or path.stem in names]
    code = protoc.main(["protoc", f"-I{sources}", f"-I{well_known}", *options, *chosen])
    if code != 0:
        raise SystemExit(f"protoc failed: {code}")


if __name__ == "__main__":
    sys.exit(main())
