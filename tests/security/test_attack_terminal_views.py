"""What others write: in the picture of a running job, in notebooks, pages and our own logs."""

from __future__ import annotations

import ast
import io
import json
import logging
import traceback
from pathlib import Path

import pytest
from rich.console import Console

import corral
from corral.cli.views.live import JobView, Replica
from corral.cli.views.loglines import Prefixes
from corral.cli.views.records import describe
from corral.client import LogChunk
from corral.client.errors import JobError
from corral.client.explain.explanation import Explanation
from corral.client.gateway.problems import error_of
from corral.client.kinds import Role, kind_of
from corral.kube.errors import ApiError, error_from_status
from corral.kube.printable import printable, printable_lines
from corral.podtools.kafka.client import Record
from corral.runtime.logcontext import configure_logging
from corral.sdk.errors import JobFailed
from corral.sdk.explained import Explained
from corral.sdk.views import Event, Events, Job, Jobs
from tests.security.hostile_server import EVIL, event, job

PACKAGE = Path(corral.__file__).parent
KIND = kind_of("trainingjobs")


def drawn(renderable: object, *, terminal: bool = True) -> str:
    """What rich writes, without the sequences of its own colours."""
    out = io.StringIO()
    Console(file=out, force_terminal=terminal, color_system=None, width=400).print(renderable)
    return out.getvalue()


@pytest.mark.attack(
    "terminal",
    "puts sequences into phase, message, metrics and replica names of a job that somebody follows",
    "the picture of `corral run` shows them escaped, and markup as it is written",
)
@pytest.mark.parametrize("count", [2, 40])
def test_picture_of_a_running_job(count: int) -> None:
    view = JobView(f"trainingjob/{EVIL}", phase=EVIL, message=EVIL, elapsed=3.0)
    view.report({"step": EVIL, "totalSteps": EVIL, "metrics": {EVIL: 1.0}})
    view.replicas = [Replica(EVIL, EVIL)] * count
    shown = drawn(view.render())
    assert printable_lines(shown) == shown
    assert "[bold red]markup" in shown
    assert not [line for line in shown.splitlines() if line.startswith("FORGED")]


@pytest.mark.attack(
    "terminal",
    "writes a line end into a log so that the next line seems to be of another replica",
    "every line carries the prefix of the replica that wrote it",
)
def test_prefixes_of_log_lines() -> None:
    put = Prefixes(colour=False, escaped=True).put
    chunk = LogChunk("p", Role(EVIL, 1), "c", "a\rb\x85c\u2028d\n".encode())
    lines = put(chunk).decode().split("\n")
    assert all(line.startswith(f"[{printable(EVIL)}-1] ") for line in lines if line)


@pytest.mark.attack(
    "terminal",
    "sends messages to a topic whose keys, headers and arrays hold sequences",
    "`corral fl tail` prints them escaped",
)
@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        (b"\x1b[2J", b"data", ()),
        (b"k", b'{"a": "\x1b"}', ()),
        (b"k", b'{"a": "\\u001b[2J\\u202e"}', ()),
        (b"k", b"\x93NUMPY\x01\x00v\x00{'descr': '\x1b[2J', }", ()),
        (b"k", b"x", (("encoding", b"e"), ("chunk", b"\x1b[2J\n"))),
    ],
)
def test_messages_of_topics(
    key: bytes,
    value: bytes,
    headers: tuple[tuple[str, bytes], ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    from corral.cli.views.output import say_lines

    say_lines(describe(Record(0, key, value, headers, 0.0), partition=0))
    said = capsys.readouterr().out
    assert printable_lines(said) == said


@pytest.mark.attack(
    "terminal",
    "puts HTML, markup and sequences into what a notebook shows",
    "HTML holds none of the attacker's tags, a terminal none of the sequences",
)
@pytest.mark.parametrize("what", ["job", "jobs", "events", "explained"])
def test_notebooks(what: str) -> None:
    html = "<script>alert(1)</script><img src=x onerror=y>" + EVIL
    obj = json.loads(json.dumps(job("trainingjobs")).replace("markup", "<script>"))
    obj["status"]["message"] = obj["status"]["failure"]["logTail"] = html
    one = Job.read(KIND, obj)
    told = Event.read({**event(), "message": html})
    found = {
        "job": one,
        "jobs": Jobs([one]),
        "events": Events([told]),
        "explained": Explained.of(Explanation(EVIL, html, (html,), (html,))),
    }[what]
    page = found._repr_html_()
    assert "<script" not in page and "<img" not in page
    assert printable_lines(page) == page
    shown = drawn(found)
    assert printable_lines(shown) == shown
    for text in (repr(one), str(told), repr(Explained.of(Explanation("p", html)))):
        assert printable_lines(text) == text


@pytest.mark.attack(
    "terminal",
    "has a server, webhook or gateway refuse with sequences, which a traceback or notebook shows",
    "the errors of the client and the SDK are escaped where they are printed",
)
@pytest.mark.parametrize(
    "error",
    [
        error_from_status({"message": EVIL, "reason": "Forbidden", "code": 403}),
        ApiError(EVIL, reason=EVIL),
        error_of(409, {"detail": EVIL, "hint": EVIL, "type": "urn:corral:problem:conflict"}),
        error_of(422, {"title": EVIL}),
        JobError(EVIL),
        JobFailed(EVIL, job=Job.read(KIND, job("trainingjobs"))),
    ],
    ids=lambda error: type(error).__name__,
)
def test_tracebacks(error: Exception) -> None:
    try:
        raise RuntimeError("above") from error
    except RuntimeError as caught:
        shown = "".join(traceback.format_exception(caught))
    assert printable_lines(shown) == shown
    assert printable_lines(str(error)) == str(error) and printable_lines(repr(error)) == repr(error)


@pytest.mark.attack(
    "terminal",
    "has one of our parts log a text of the attacker's with line ends in it",
    "the line stays one line; no line of the log begins as the attacker wants",
)
@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("way", ["argument", "message", "exception"])
def test_our_logs(form: str, way: str) -> None:
    out = io.StringIO()
    root = logging.getLogger()
    before = list(root.handlers), root.level
    configure_logging(form, stream=out)  # type: ignore[arg-type]
    try:
        log(way)
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
    written = out.getvalue()
    assert printable_lines(written) == written
    lines = written.splitlines()
    assert not [line for line in lines if line.startswith(("FORGED", "2026-01-01"))]
    assert len([line for line in lines if not line.startswith("    ")]) == 1


def log(way: str) -> None:
    logger = logging.getLogger("corral.test")
    forged = f"\n2026-01-01T00:00:00.000Z INFO corral: FORGED{EVIL}"
    if way == "exception":
        try:
            raise ValueError(forged)
        except ValueError:
            logger.exception("it failed")
    elif way == "message":
        logger.warning(forged)
    else:
        logger.warning("pod %s failed", forged)


@pytest.mark.attack(
    "terminal",
    "waits for a command that prints without escaping",
    "no module of the command line writes but through the one that escapes",
)
def test_one_place_prints() -> None:
    """`print` and `typer.echo` stand in output.py (and where the text is ours alone)."""
    root = PACKAGE / "cli"
    sources = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*.py"))}
    assert "commands/read.py" in sources
    ours = {"views/output.py", "program.py", "main.py", "commands/jobs.py"}
    assert ours < sources.keys()
    found = []
    for place in sorted(sources.keys() - ours):
        for node in ast.walk(ast.parse(sources[place].read_text())):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                if name in ("print", "typer.echo", "click.echo", "typer.secho", "sys.stdout.write"):
                    found.append(f"{place}:{node.lineno} {name}")
    assert found == []


@pytest.mark.attack(
    "terminal",
    "puts HTML into what the gateway's page shows",
    "the page builds text nodes only, and its policy runs no inline script",
)
def test_page_of_the_gateway() -> None:
    script = (PACKAGE / "gateway" / "static" / "docs.js").read_text()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in script
    from corral.gateway.rest.pages import _POLICY

    assert "script-src 'self'" in _POLICY and "unsafe" not in _POLICY
