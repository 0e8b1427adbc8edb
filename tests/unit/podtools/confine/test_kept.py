from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.podtools.confine import Kept, Limits, NotStarted, Unanswered

LIMITS = Limits(seconds=60, memory=2**30)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Kept]]:
    here = Path(__file__).parent
    monkeypatch.syspath_prepend(str(here))
    made: list[Kept] = []

    def make(how: str = "yes") -> Kept:
        made.append(Kept("answering:serve", [how], readable=[here], limits=LIMITS))
        return made[-1]

    yield make
    for one in made:
        one.close()


def ask(one: Kept, request: bytes, *, seconds: float = 30, most: int = 10_000_000) -> bytes:
    return one.ask(request, seconds=seconds, most=most)


def test_one_process_answers_many_requests(kept: Callable[..., Kept]) -> None:
    one = kept()
    large = os.urandom(5_000_000)
    assert ask(one, b"echo " + large) == large
    assert ask(one, b"echo ") == b""
    with pytest.raises(Unanswered, match="that is no request"):
        ask(one, b"what")
    assert ask(one, b"count") == b"4"
    assert one.started == 1


def test_it_is_confined(kept: Callable[..., Kept], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    with pytest.raises(Unanswered, match=r"Permission denied|No such file"):
        ask(kept(), b"read " + str(secret).encode())


def test_one_that_hangs_is_ended_and_another_goes_on(kept: Callable[..., Kept]) -> None:
    one = kept()
    assert ask(one, b"pid")
    assert one._running is not None
    pid = one._running.process.pid
    with pytest.raises(Unanswered, match="its time was over"):
        ask(one, b"hang", seconds=0.5)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert ask(one, b"count") == b"1"
    assert one.started == 2


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (b"die", "it used more processor time or memory"),
        (b"garbage", "something else than answers"),
        (b"large 2000", "larger than 1000 bytes"),
    ],
)
def test_what_is_no_answer_ends_it(request_: bytes, words: str, kept: Callable[..., Kept]) -> None:
    one = kept()
    with pytest.raises(Unanswered, match=words):
        ask(one, request_, most=1000)
    assert ask(one, b"count") == b"1"


def test_one_that_is_worn_out_is_replaced_without_a_word(kept: Callable[..., Kept]) -> None:
    one = kept()
    assert [ask(one, b"worn") for _ in range(3)] == [b"fresh"] * 3
    assert one.started == 3


def test_an_answer_too_many_is_nobody_elses(kept: Callable[..., Kept]) -> None:
    one = kept()
    assert ask(one, b"twice") == b"one"
    assert ask(one, b"echo mine") == b"mine"
    assert ask(one, b"count") == b"3"


@pytest.mark.parametrize(("how", "words"), [("no", "there is nothing"), ("dies", "ended with 7")])
def test_one_that_cannot_start_says_why(how: str, words: str, kept: Callable[..., Kept]) -> None:
    with pytest.raises(NotStarted, match=words):
        kept(how).start()
