"""OAI-PMH: all records, page by page, then what changes; whatever the repository does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.site.repository import DAYS, Repository, filled
from tests.site.source_server import HERE, Reply, serving
from tocsin.model import Document
from tocsin.site.accounts import Account, Role
from tocsin.site.harvest import sources
from tocsin.site.harvest.fetch import SourceError
from tocsin.site.harvest.harvester import Harvester, Visited
from tocsin.site.harvest.oaipmh import read_page
from tocsin.store import Store, documents

ANN = Account("ann", Role.PUBLISHER)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "store")
    yield opened
    opened.close()


@contextmanager
def harvested(store: Store, repository: Repository, **more: str) -> Iterator[int]:
    """The repository, served, as a source; its number."""
    with serving(repository.answer) as served:
        yield sources.add(
            store, HERE, ANN, {"address": served.url("oai"), "kind": "oai", "name": "Repo", **more}
        ).number


def visit(store: Store, number: int, settings=HERE) -> list[Visited]:
    return Harvester(store, settings).visit_once([number])


def names(store: Store) -> list[str]:
    """Of the documents that are current, without their source's key."""
    found = [one for chunk in documents.read(store, 0, documents.last_position(store)) for one in chunk]
    return sorted({one.id.partition("/")[2] for one in found if documents.find(store, one.id) is not None})


def now() -> datetime:
    return datetime.now(UTC)


def test_a_repository_is_harvested_completely_over_all_its_pages(store):
    repository = filled(95)
    with harvested(store, repository) as number:
        (found,) = visit(store, number)
    assert (found.found.new, found.problem, found.has_more) == (95, None, False)
    assert names(store) == sorted(repository.records)
    assert [asked["verb"] for asked in repository.asked] == ["Identify"] + ["ListRecords"] * 10
    document = documents.at_positions(store, [1])[1].document()
    assert document.fields["dc.title"] == ("Paper 0 about subject0",)
    assert document.fields["dc.creator"] == ("Ann", "Bob")
    assert (document.source, document.time) == ("Repo", "2004-05-31")


def test_the_next_visit_asks_for_what_has_changed_since(store):
    repository = filled(25)
    with harvested(store, repository) as number:
        visit(store, number)
        repository.asked.clear()
        (quiet,) = visit(store, number)
        assert (quiet.found.told, quiet.problem) == (0, None)
        assert "from" in repository.asked[0]
        repository.put("oai:x:3", "Quite another paper", now())
        repository.put("oai:x:new", "A new paper", now())
        repository.put("oai:x:4", "", now(), is_deleted=True)
        repository.put("oai:x:never-seen", "", now(), is_deleted=True)
        (found,) = visit(store, number)
    assert (found.found.new, found.found.updated, found.found.deleted) == (1, 1, 1)
    assert "oai:x:4" not in names(store)
    key = sources.get(store, number).key
    changed = documents.find(store, f"{key}/oai:x:3")
    assert changed is not None
    assert (changed.version, changed.document().fields["dc.title"]) == (2, ("Quite another paper",))


def test_a_record_that_was_deleted_may_come_back(store):
    repository = filled(3)
    with harvested(store, repository) as number:
        visit(store, number)
        repository.put("oai:x:1", "", now(), is_deleted=True)
        visit(store, number)
        assert names(store) == ["oai:x:0", "oai:x:2"]
        repository.put("oai:x:1", "Paper 1 about subject1", now())
        visit(store, number)
    assert names(store) == ["oai:x:0", "oai:x:1", "oai:x:2"]


def test_days_are_enough_if_the_repository_knows_no_seconds(store):
    repository = filled(15, granularity=DAYS)
    with harvested(store, repository) as number:
        visit(store, number)
        repository.put("oai:x:new", "A new paper", now())
        (found,) = visit(store, number)
    assert (found.found.new, found.problem) == (1, None)
    assert repository.asked[-1]["from"] == f"{now():%Y-%m-%d}"


def test_a_clock_in_the_future_loses_no_records(store):
    repository = filled(5, ahead_seconds=10 * 86_400.0)
    with harvested(store, repository) as number:
        visit(store, number)
        repository.put("oai:x:new", "A new paper", now())
        (found,) = visit(store, number)
    assert found.found.new == 1


def test_a_token_that_is_not_known_any_more_starts_the_list_again(store):
    repository = filled(60)

    def forget(asked: Mapping[str, str], number: int) -> Reply | None:
        repository.generation += number == 4
        return None

    repository.fault = forget
    with harvested(store, repository) as number:
        (found,) = visit(store, number)
    assert (found.problem, found.found.new, found.found.repeated) == (None, 60, 20)
    assert names(store) == sorted(repository.records)


def test_a_repository_that_knows_none_of_its_tokens_is_given_up_for_now(store):
    repository = filled(30)

    def forget(asked: Mapping[str, str], number: int) -> Reply | None:
        repository.generation += 1
        return None

    repository.fault = forget
    with harvested(store, repository) as number:
        (found,) = visit(store, number)
    assert found.problem is not None
    assert "badResumptionToken" in found.problem
    assert len(repository.asked) < 10


def test_what_fails_in_the_middle_is_gone_on_with(store):
    repository = filled(95)
    repository.fault = lambda asked, number: Reply(status=503, headers={"retry-after": "300"}) if number == 6 else None
    with harvested(store, repository) as number:
        (first,) = visit(store, number)
        assert (first.problem, first.found.new) == ("answered 503, asks for 300 seconds", 40)
        (second,) = visit(store, number)
    assert (second.problem, second.found.new, second.found.repeated) == (None, 55, 0)
    assert names(store) == sorted(repository.records)


def test_a_long_list_takes_several_visits_and_others_get_their_turn(store):
    repository = filled(95)
    with harvested(store, repository) as number:
        found = visit(store, number, replace(HERE, harvest_pages_max=3))
    assert [one.has_more for one in found] == [True, True, True, False]
    assert names(store) == sorted(repository.records)
    assert len(repository.asked) == 11  # no page twice


def test_slow_answers_are_waited_for_and_endless_ones_are_not(store):
    repository = filled(25)
    repository.fault = lambda asked, number: Reply(status=503, sleep=3.0) if number == 3 else None
    with harvested(store, repository) as number:
        (found,) = visit(store, number, replace(HERE, harvest_timeout_seconds=1.0))
        assert found.problem == "no whole answer within 1 seconds"
        (second,) = visit(store, number)
    assert second.problem is None
    assert names(store) == sorted(repository.records)


def test_tokens_that_go_round_in_a_circle_end(store):
    repository = filled(25)
    page = '<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><ListRecords><resumptionToken>{}</resumptionToken></ListRecords></OAI-PMH>'
    repository.fault = lambda asked, number: Reply(page.format("same").encode()) if number > 1 else None
    with harvested(store, repository) as number:
        (found,) = visit(store, number)
        assert found.problem == "the repository repeats its resumption token: the list would never end"
        repository.fault = lambda asked, count: Reply(page.format(f"t{count % 7}").encode()) if count > 1 else None
        found = visit(store, number, replace(HERE, harvest_list_pages_max=50))[-1]
        assert found.problem == "the list never ends (harvest_list_pages_max)"


@pytest.mark.parametrize("code", ["badArgument", "cannotDisseminateFormat", "noSetHierarchy", "idDoesNotExist"])
def test_an_error_is_told_as_the_repository_says_it(store, code):
    repository = filled(5)
    repository.fault = lambda asked, number: Reply(repository.error(code).encode()) if number > 1 else None
    with harvested(store, repository, set="physics") as number:
        (found,) = visit(store, number)
    assert found.problem == f"the repository answers {code}: said the repository"
    assert repository.asked[-1]["set"] == "physics"


def test_an_empty_repository_is_no_failure(store):
    with harvested(store, Repository()) as number:
        (found,) = visit(store, number)
    assert (found.problem, found.found.new) == (None, 0)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"<html>", b"<rss/>", b"\xff\xfe", b"<OAI-PMH/>",
        b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/">&b;</OAI-PMH>',
        b'<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/">' + b"<a>" * 100_000,
    ],
    ids=range(7),
)  # fmt: skip
def test_what_is_no_answer_is_refused(data):
    with pytest.raises(SourceError):
        read_page(data)


def test_a_record_cannot_name_a_document_of_another_source(store):
    repository = Repository()
    repository.put("victim", "Not yours", now())
    with harvested(store, repository) as number:
        documents.accept(store, [Document("victim", {"text": ("mine",)})])
        visit(store, number)
        repository.put("victim", "", now(), is_deleted=True)
        visit(store, number)
    found = documents.find(store, "victim")
    assert found is not None
    assert found.document().fields["text"] == ("mine",)
