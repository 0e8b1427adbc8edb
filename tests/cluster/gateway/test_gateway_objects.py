"""Objects through the gateway, with nobody who changes them meanwhile."""

from __future__ import annotations

from typing import Any

from tests.cluster.gateway.gateways import Somebody
from tests.cluster.jobs_api.manifests_of_jobs import training


def at(namespace: str, plural: str = "trainingjobs", rest: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/{plural}{rest}"


def test_lists_are_filtered_sorted_and_in_pages(admin: Somebody, namespace: str) -> None:
    for number in range(5):
        made = training(f"list-{number}", runPolicy={"suspend": True})
        made["metadata"]["labels"]["even"] = str(number % 2 == 0).lower()
        assert admin.ask("POST", at(namespace), made).status == 201
    first = admin.get(at(namespace, rest="?limit=2&sort=-name"))
    assert names(first) == ["list-4", "list-3"]
    assert first.headers["x-total-count"] == "5"
    found = names(first)
    page = first
    while "link" in page.headers:
        page = admin.get(page.headers["link"].partition(">")[0].removeprefix("<"))
        found += names(page)
    assert found == [f"list-{number}" for number in (4, 3, 2, 1, 0)]
    assert len(names(admin.get(at(namespace, rest="?labelSelector=even%3Dtrue")))) == 3
    assert names(admin.get(at(namespace, rest="?name=*-3"))) == ["list-3"]
    assert names(admin.get(at(namespace, rest="?since=2999-01-01T00:00:00Z"))) == []
    assert len(names(admin.get(at(namespace, rest="?phase=pending,suspended")))) == 5
    everywhere = admin.get("/api/v1/trainingjobs?name=list-&limit=1000")
    assert {(o["metadata"]["namespace"]) for o in everywhere.json()["items"]} >= {namespace}
    assert admin.get(at(namespace, rest="?sort=size")).status == 400


def names(reply: Any) -> list[str]:
    assert reply.status == 200, reply.body
    return [obj["metadata"]["name"] for obj in reply.json()["items"]]


def test_a_create_can_be_repeated(admin: Somebody, namespace: str) -> None:
    body = training("once", runPolicy={"suspend": True})
    key = {"Idempotency-Key": "my-key"}
    first = admin.ask("POST", at(namespace), body, headers=key)
    again = admin.ask("POST", at(namespace), body, headers=key)
    assert (first.status, again.status) == (201, 200), again.body
    assert first.json()["metadata"]["uid"] == again.json()["metadata"]["uid"]
    assert again.headers["idempotency-replayed"] == "true"
    other = admin.ask("POST", at(namespace), {**body, "spec": {"image": "x"}}, headers=key)
    assert other.status == 422
    assert admin.ask("POST", at(namespace), body).status == 409
    dry = admin.ask("POST", at(namespace, rest="?dryRun=true"), training("never"))
    assert dry.status == 200
    assert admin.get(at(namespace, rest="/never")).status == 404


def test_only_what_was_seen_is_changed(admin: Somebody, namespace: str) -> None:
    one = at(namespace, rest="/seen")
    made = admin.ask("POST", at(namespace), training("seen", runPolicy={"suspend": True}))
    tag = made.headers["etag"]
    assert admin.get(one, If_None_Match=tag).status == 304
    changed = made.json()
    changed["metadata"]["labels"]["new"] = "label"
    assert admin.ask("PUT", one, changed, headers={"If-Match": tag}).status == 200
    assert admin.ask("PUT", one, changed, headers={"If-Match": tag}).status == 412
    assert admin.ask("DELETE", one, headers={"If-Match": tag}).status == 412
    assert admin.get(one, If_None_Match=tag).status == 200
    assert admin.ask("DELETE", one, headers={"If-Match": "*"}).status in (200, 202)


def test_what_is_wrong_is_named_field_by_field(admin: Somebody, namespace: str) -> None:
    reply = admin.ask("POST", at(namespace), training("wrong", replicas="many", image=7))
    assert reply.status == 422
    fields = {error["field"] for error in reply.json()["errors"]}
    assert {"spec.replicas", "spec.image"} <= fields
    assert reply.headers["content-type"] == "application/problem+json"


def test_a_kind_that_is_not_installed(admin: Somebody, namespace: str) -> None:
    reply = admin.get(at(namespace, "wasmtasks"))
    assert reply.status in (200, 404)
    if reply.status == 404:
        assert "corral install" in reply.json()["hint"] + reply.json()["detail"]


def test_a_watch_goes_on_after_its_last_event(admin: Somebody, namespace: str) -> None:
    one = at(namespace, rest="/watched")
    admin.ask("POST", at(namespace), training("watched", runPolicy={"suspend": True}))
    first = next(iter(admin.events(f"{one}/watch")))
    assert first[1] == "ADDED"
    changed = admin.get(one).json()
    changed["metadata"]["labels"]["changed"] = "yes"
    admin.ask("PUT", one, changed)
    place, event, said = next(iter(admin.events(f"{one}/watch", Last_Event_ID=first[0])))
    assert (event, said["object"]["metadata"]["labels"]["changed"]) == ("MODIFIED", "yes")
    admin.ask("DELETE", one)
    rest = [event for _, event, _ in admin.events(f"{one}/watch", Last_Event_ID=place)]
    assert rest[-2:] == ["DELETED", "end"]
    collection = f"/api/v1/watch/namespaces/{namespace}/trainingjobs"
    admin.ask("POST", at(namespace), training("another", runPolicy={"suspend": True}))
    assert next(iter(admin.events(collection)))[2]["name"] == "another"
