"""The next time of a schedule, time zones and changes of the clock included."""

from __future__ import annotations

from datetime import datetime

import pytest

from corral.kube.cron import ScheduleError, parse

NY = "America/New_York"


@pytest.mark.parametrize(
    ("spec", "zone", "after", "expected"),
    [
        # Mon/5 is Monday and Saturday, Mon/2 also Wednesday and Friday.
        ("0/15 * * * *", None, "2012-07-09T14:45:00Z", "2012-07-09T15:00:00Z"),
        ("0/15 * * * *", None, "2012-07-09T14:59:59Z", "2012-07-09T15:00:00Z"),
        ("20-35/15 * * * *", None, "2012-07-09T15:45:00Z", "2012-07-09T16:20:00Z"),
        ("*/15 * * * *", None, "2012-07-09T23:46:00Z", "2012-07-10T00:00:00Z"),
        ("0/30 * 9 Apr Sun", None, "2012-07-10T00:00:00Z", "2013-04-07T00:00:00Z"),
        ("0 0 */5 Apr,Aug,Oct Mon", None, "2012-07-09T23:35:51Z", "2012-08-01T00:00:00Z"),
        ("0 0 */5 Oct Mon", None, "2012-07-09T23:35:51Z", "2012-10-01T00:00:00Z"),
        ("0 0 * Feb Mon/5", None, "2012-07-09T23:35:00Z", "2013-02-02T00:00:00Z"),
        ("0 0 * Feb Mon/2", None, "2012-07-09T23:35:00Z", "2013-02-01T00:00:00Z"),
        ("0 0 29 Feb ?", None, "2012-07-09T23:35:00Z", "2016-02-29T00:00:00Z"),
        ("@hourly", None, "2012-07-09T14:45:00Z", "2012-07-09T15:00:00Z"),
        ("@daily", None, "2012-07-09T14:45:00Z", "2012-07-10T00:00:00Z"),
        ("@midnight", None, "2012-07-09T14:45:00Z", "2012-07-10T00:00:00Z"),
        ("@weekly", None, "2012-07-09T14:45:00Z", "2012-07-15T00:00:00Z"),
        ("@monthly", None, "2012-07-09T14:45:00Z", "2012-08-01T00:00:00Z"),
        ("@yearly", None, "2012-07-09T14:45:00Z", "2013-01-01T00:00:00Z"),
        ("@every 1h30m", None, "2012-07-09T14:45:00.5Z", "2012-07-09T16:15:00Z"),
        ("@every 10ms", None, "2012-07-09T14:45:00Z", "2012-07-09T14:45:01Z"),
        # both day fields: either is enough; with a star in one, both
        ("0 0 13 * Fri", None, "2012-07-09T00:00:00Z", "2012-07-13T00:00:00Z"),
        ("0 0 13 * Fri", None, "2012-07-13T00:00:00Z", "2012-07-20T00:00:00Z"),
        ("0 0 * * Fri", None, "2012-07-13T00:00:00Z", "2012-07-20T00:00:00Z"),
        # spring: 2:00 to 3:00 is skipped on 2012-03-11, summer to winter repeats 1:00 to 2:00
        ("0 * * * *", NY, "2012-03-11T00:00:00-05:00", "2012-03-11T01:00:00-05:00"),
        ("0 * * * *", NY, "2012-03-11T01:00:00-05:00", "2012-03-11T03:00:00-04:00"),
        ("0 2 * * *", NY, "2012-03-11T00:00:00-05:00", "2012-03-12T02:00:00-04:00"),
        ("0 1 * * *", NY, "2012-03-11T00:00:00-05:00", "2012-03-11T01:00:00-05:00"),
        ("0 * * * *", NY, "2012-11-04T00:00:00-04:00", "2012-11-04T01:00:00-04:00"),
        ("0 * * * *", NY, "2012-11-04T01:00:00-04:00", "2012-11-04T01:00:00-05:00"),
        ("0 1 * * *", NY, "2012-11-04T01:00:00-04:00", "2012-11-04T01:00:00-05:00"),
        ("0 2 * * *", NY, "2012-11-04T00:00:00-04:00", "2012-11-04T02:00:00-05:00"),
        ("0 3 * * *", NY, "2012-11-04T00:00:00-04:00", "2012-11-04T03:00:00-05:00"),
        ("TZ=America/New_York 0 3 * * *", "Asia/Tokyo", "2012-07-09T00:00:00Z",
         "2012-07-09T07:00:00Z"),
        ("CRON_TZ=Asia/Tokyo 0 3 * * *", None, "2012-07-09T00:00:00Z", "2012-07-09T18:00:00Z"),
        # a midnight that does not exist
        ("0 1 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00",
         "2018-11-04T01:00:00-02:00"),
        ("0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00",
         "2018-11-05T00:00:00-02:00"),
        # half an hour off
        ("15 * * * *", "Asia/Kolkata", "2012-07-09T00:00:00Z", "2012-07-09T00:45:00Z"),
        ("0 5 * * *", "Asia/Kolkata", "2012-07-09T00:00:00Z", "2012-07-09T23:30:00Z"),
    ],
)  # fmt: skip
def test_next(spec: str, zone: str | None, after: str, expected: str) -> None:
    found = parse(spec, zone).next(datetime.fromisoformat(after))
    assert found == datetime.fromisoformat(expected)


@pytest.mark.parametrize("spec", ["0 0 30 Feb ?", "0 0 31 Apr ?"])
def test_never(spec: str) -> None:
    assert parse(spec).next(datetime.fromisoformat("2012-07-09T23:35:00Z")) is None


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("@never", "unrecognized descriptor: @never"),
        ("@every x", 'failed to parse duration @every x: time: invalid duration "x"'),
        ("@every", "unrecognized descriptor: @every"),
        ("", "empty spec string"),
        ("-1 * * * *", 'failed to parse int from : strconv.Atoi: parsing "": invalid syntax'),
        ("1/-2 * * * *", "negative number (-2) not allowed: -2"),
        ("TZ=Nowhere/Land * * * * *",
         "provided bad location Nowhere/Land: unknown time zone Nowhere/Land"),
        ("TZ=0", "invalid schedule format: runtime error: slice bounds out of range [3:-1]"),
        ("CRON_TZ=0", "invalid schedule format: runtime error: slice bounds out of range [8:-1]"),
    ],
)  # fmt: skip
def test_unreadable(spec: str, why: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse(spec)
    assert str(caught.value) == why
