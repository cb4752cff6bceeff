"""Every decision record has a number, a date and a status, and is in the navigation of the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT

RECORDS = sorted((ROOT / "docs" / "adr").glob("*.md"))
_HEADER = re.compile(
    r"# (?P<number>\d+)\. (?P<title>.+)\n\nDate: \d{4}-\d{2}-\d{2}\n\nStatus: (?P<status>.+)\n\n"
)
_LINK = r"\[decision \d+\]\([\w.-]+\)"
_LINKED = re.compile(r"\[decision (\d+)\]\(([\w.-]+)\)")
_STATUS = re.compile(
    r"accepted(; supersedes \[decision (?P<old>\d+)\]\((?P<old_file>[\w.-]+)\))?"
    rf"(; amended by (?P<amendments>{_LINK}(, {_LINK})*))?"
    r"|superseded by \[decision (?P<new>\d+)\]\((?P<new_file>[\w.-]+)\)"
)


def header_of(record: Path) -> re.Match[str]:
    header = _HEADER.match(record.read_text())
    assert header is not None, "the title is followed by a Date line and a Status line"
    return header


def status_of(record: Path) -> re.Match[str]:
    status = _STATUS.fullmatch(header_of(record)["status"])
    assert status is not None, "accepted[; supersedes][; amended by], or superseded by"
    return status


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_record_has_a_date_and_a_status(record: Path) -> None:
    status = status_of(record)
    assert status["new"] != header_of(record)["number"]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_the_number_of_a_record_is_that_of_its_file(record: Path) -> None:
    assert record.name.startswith(f"{int(header_of(record)['number']):04d}-")


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_superseded_record_and_its_successor_link_to_each_other(record: Path) -> None:
    number, status = header_of(record)["number"], status_of(record)
    if status["new_file"]:
        successor = status_of(record.with_name(status["new_file"]))
        assert (successor["old"], successor["old_file"]) == (number, record.name)
    if status["old_file"]:
        predecessor = status_of(record.with_name(status["old_file"]))
        assert (predecessor["new"], predecessor["new_file"]) == (number, record.name)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_an_amendment_is_a_later_record_and_names_what_it_amends(record: Path) -> None:
    header, status = header_of(record), status_of(record)
    for number, name in _LINKED.findall(status["amendments"] or ""):
        amendment = record.with_name(name)
        assert header_of(amendment)["number"] == number
        assert int(number) > int(header["number"])
        assert f"]({record.name})" in amendment.read_text()


def test_numbers_are_unique() -> None:
    numbers = [header_of(record)["number"] for record in RECORDS]
    assert len(numbers) == len(set(numbers))


def test_the_navigation_lists_every_record_in_order() -> None:
    listed = re.findall(r": adr/([\w.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert listed == [record.name for record in RECORDS]
