"""A made-up literature for the demonstration: papers whose authors and citations form graphs that look real.

Three habits of science make the graphs (no data is copied):

* the rich get richer: who has published more is more often on the next paper, what is cited more is cited again;
* people stay: an author belongs to a community of a topic, and writes again with those known from earlier papers;
* the literature grows: the number of papers in all doubles every three years or so.

So SmartSeer's nested queries (§VI-B: co-authors, papers that cite a match) have something to find. The stream has no
end and needs bounded memory: an urn forgets its oldest balls, and so authors retire and old papers fade.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from math import log

import numpy as np

from tocsin.model import Document
from tocsin.sim.prose import CULTURES, TOPICS, Dice, person, pick, write

COMMUNITIES_PER_TOPIC = 4
COMMUNITY_SHARES = (0.4, 0.3, 0.2, 0.1)
TEAM_SHARES = (0.12, 0.25, 0.25, 0.17, 0.09, 0.05, 0.03, 0.02, 0.01, 0.01)  # teams of 1, 2, … authors
NEW_AUTHOR, KNOWN_PARTNER, SAME_COMMUNITY = 0.24, 0.52, 0.2  # the rest come from anywhere
CITED_TOPIC, CITED_RECENT, CITED_OWN = 0.55, 0.2, 0.12  # the rest from other topics
REFERENCES_MIN, REFERENCES_MEAN, REFERENCES_MAX = 2, 8, 40

URN_PAPERS, RECENT_PAPERS, PARTNERS_MAX, OWN_PAPERS_MAX = 4_000, 60, 60, 8
URN_AUTHORS = 600  # in each community; all communities together have fewer active authors than there are names

START = datetime(2004, 1, 5, 9, tzinfo=UTC)
GROWTH_YEARS, GROWTH_PAPERS = 4.0, 250
"""Paper n appears GROWTH_YEARS · ln(1 + n / GROWTH_PAPERS) years after the start: 500 papers take 4 years, 5,000 take
12, a thousand million take 61."""


class _Urn:
    """Draws a ball with a chance proportional to how often it was put in; beyond its size the oldest ball goes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.balls: list[int] = []
        self._oldest = 0

    def put(self, ball: int) -> int | None:
        """Puts the ball in and gives the one that had to go, if any."""
        if len(self.balls) < self.size:
            self.balls.append(ball)
            return None
        gone, self.balls[self._oldest] = self.balls[self._oldest], ball
        self._oldest = (self._oldest + 1) % self.size
        return gone

    def draw(self, dice: Dice) -> int | None:
        """One of the balls, which stays in; None if there is none."""
        return self.balls[int(dice() * len(self.balls))] if self.balls else None


@dataclass(slots=True)
class _Author:
    name: str
    community: int
    balls: int = 0
    """In the community's urn; without any, the author has retired."""
    partners: _Urn = field(default_factory=lambda: _Urn(PARTNERS_MAX))
    papers: _Urn = field(default_factory=lambda: _Urn(OWN_PAPERS_MAX))


class _People:
    """Communities of authors. Communities are numbered; each topic has COMMUNITIES_PER_TOPIC of them."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.urns = [_Urn(URN_AUTHORS) for _ in range(len(TOPICS) * COMMUNITIES_PER_TOPIC)]
        self.active: dict[int, _Author] = {}
        self.names: set[str] = set()
        self.born = 0

    def team(self, community: int) -> list[int]:
        """The authors of a paper of this community, the leading one first."""
        size = 1 + _one_of(TEAM_SHARES, self.dice)
        team = [self._known(community) if self.dice() > NEW_AUTHOR else self._born(community)]
        for _ in range(2 * size):
            if len(team) == size:
                break
            if (candidate := self._next(team, community)) not in team:
                team.append(candidate)
        return team

    def published(self, team: list[int], paper: int) -> None:
        """The team has written this paper: each remembers it and the others, and is known better from now on."""
        for author in team:
            record = self.active[author]
            record.balls += 1
            record.papers.put(paper)
            for partner in team:
                if partner != author:
                    record.partners.put(partner)
        for author in team:
            gone = self.urns[self.active[author].community].put(author)
            if gone is not None:
                self._fade(gone)

    def _next(self, team: list[int], community: int) -> int:
        chance = self.dice()
        if chance < NEW_AUTHOR:
            return self._born(community)
        if chance < NEW_AUTHOR + KNOWN_PARTNER:
            friend = self.active[team[int(self.dice() * len(team))]].partners.draw(self.dice)
            if friend is not None and friend in self.active:
                return friend
        if chance < NEW_AUTHOR + KNOWN_PARTNER + SAME_COMMUNITY:
            return self._known(community)
        return self._known(int(self.dice() * len(self.urns)))

    def _known(self, community: int) -> int:
        author = self.urns[community].draw(self.dice)
        return self._born(community) if author is None else author

    def _born(self, community: int) -> int:
        """A new author, by a name that no active author has; half of a community share a mother tongue."""
        home = CULTURES[community % len(CULTURES)]
        while True:
            culture = home if self.dice() < 0.5 else CULTURES[int(self.dice() * len(CULTURES))]
            name = person(culture, self.dice)
            if name not in self.names:
                break
        self.names.add(name)
        self.born += 1
        self.active[self.born] = _Author(name, community)
        return self.born

    def _fade(self, author: int) -> None:
        record = self.active[author]
        record.balls -= 1
        if record.balls == 0:
            del self.active[author]
            self.names.discard(record.name)


class _Library:
    """What may be cited: an urn of papers for each topic, each paper in it once, and once more for each citation."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.cited = [_Urn(URN_PAPERS) for _ in TOPICS]
        self.recent = [_Urn(RECENT_PAPERS) for _ in TOPICS]

    def references(self, topic: int, own: list[_Urn]) -> list[int]:
        """Earlier papers that a new one cites: mostly of its topic, often cited, recent, or by its own authors."""
        wanted = REFERENCES_MIN + int(-log(1 - self.dice()) * (REFERENCES_MEAN - REFERENCES_MIN))
        found: dict[int, None] = {}
        for _ in range(min(wanted, REFERENCES_MAX)):
            chance, among = self.dice(), topic
            if chance < CITED_TOPIC:
                urn = self.cited[topic]
            elif chance < CITED_TOPIC + CITED_RECENT:
                urn = self.recent[topic]
            elif chance < CITED_TOPIC + CITED_RECENT + CITED_OWN:
                urn = own[int(self.dice() * len(own))]
            else:
                among = int(self.dice() * len(TOPICS))
                urn = self.cited[among]
            paper = urn.draw(self.dice)
            if paper is not None and paper not in found:
                found[paper] = None
                self.cited[among].put(paper)
        return list(found)

    def published(self, topic: int, paper: int) -> None:
        """From now on this paper may be cited."""
        self.cited[topic].put(paper)
        self.recent[topic].put(paper)


def papers(seed: int, count: int | None = None) -> Iterator[Document]:
    """Generated papers p000000, p000001, …, in the order of their times; without a count, for ever.

    Fields: title, abstract, author (list), year, venue, keyword (list), citation (list of ids of earlier papers,
    absent where there are none). `source` is the publisher.
    """
    return islice(_endless(seed), count)


def paper_id(number: int) -> str:
    """The id of the paper with this number, from 0."""
    return f"p{number:06}"


def _endless(seed: int) -> Iterator[Document]:
    dice = _uniform(seed)
    people, library = _People(dice), _Library(dice)
    number = 0
    while True:
        yield _paper(number, people, library, dice)
        number += 1


def _paper(number: int, people: _People, library: _Library, dice: Dice) -> Document:
    topic = int(dice() ** 1.3 * len(TOPICS))  # the power makes the first topics the more popular ones
    team = people.team(topic * COMMUNITIES_PER_TOPIC + _one_of(COMMUNITY_SHARES, dice))
    cited = library.references(topic, [people.active[author].papers for author in team])
    library.published(topic, number)
    authors = tuple(people.active[author].name for author in team)
    people.published(team, number)
    text = write(TOPICS[topic], TOPICS[int(dice() * len(TOPICS))], dice)
    time = START + timedelta(days=365.25 * GROWTH_YEARS * log(1 + (number + dice()) / GROWTH_PAPERS))
    fields: dict[str, tuple[str | int, ...]] = {
        "title": (text.title,),
        "abstract": (text.abstract,),
        "author": authors,
        "year": (time.year,),
        "venue": (pick(TOPICS[topic].venues, dice),),
        "keyword": text.keywords,
    }
    if cited:
        fields["citation"] = tuple(map(paper_id, cited))
    return Document(paper_id(number), fields, TOPICS[topic].publisher, time.strftime("%Y-%m-%dT%H:%M:%SZ"))


def _uniform(seed: int) -> Dice:
    """Numbers in [0, 1) from numpy, drawn in blocks: one at a time would cost more than all the rest."""

    def numbers() -> Iterator[float]:
        rng = np.random.default_rng([seed, 4])
        while True:
            yield from rng.random(4_096).tolist()

    return numbers().__next__


def _one_of(shares: tuple[float, ...], dice: Dice) -> int:
    """An index, with a chance of its share."""
    left = dice()
    for index, share in enumerate(shares):
        left -= share
        if left < 0:
            return index
    return len(shares) - 1
