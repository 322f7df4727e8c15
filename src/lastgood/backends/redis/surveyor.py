"""Surveys of a store in Redis, carried out: which threads there are, and what each of them has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lastgood.backend import Columns, Footprint, Section, Sheet
from lastgood.backends.redis import calls as redis_calls
from lastgood.backends.redis import surveys
from lastgood.backends.redis.calls import Call
from lastgood.backends.redis.hints import Hints
from lastgood.backends.redis.keys import BUCKETS, Keys, tag_of
from lastgood.backends.redis.queries import TOP, Question
from lastgood.backends.redis.rows import unpacked
from lastgood.backends.redis.wire import Wire
from lastgood.backends.remote.queries import ThreadName
from lastgood.backends.surveys import of_tenant, told
from lastgood.reports import Problem
from lastgood.rows import DELETED, CheckpointRow, ThreadRow, intact

PAGE = 512
"""So many threads are looked at in a round trip."""
TABLES = 64
"""And so many tables of ids."""
_TENANT, _STATE = map(ThreadRow._fields.index, ("tenant", "state"))


class Surveyor:
    """Reads rows as they are stored."""

    def __init__(self, wire: Wire, keys: Keys, hints: Hints) -> None:
        self._wire = wire
        self._keys = keys
        self._hints = hints

    async def survey(self, tenant: str, sections: Sequence[Section]) -> list[Sheet]:
        """All sections; those of one thread are of one moment."""
        tags = await self._hints.tags({each.owner for each in sections if each.table != "thread"})
        calls: dict[str, list[tuple[int, Question]]] = {}
        sheets = [Sheet([], None) for _ in sections]
        for index, section in enumerate(sections):
            if section.table == "thread":
                sheets[index] = await self._threads(tenant, section)
            elif section.owner in tags:
                asked = (index, surveys.question(section))
                calls.setdefault(tags[section.owner], []).append(asked)
        made = [self._call(tag, [asked for _, asked in all_]) for tag, all_ in calls.items()]
        replies = await redis_calls.together(self._wire, made)
        for asked_of, (_, _, *answers) in zip(calls.values(), replies, strict=True):
            for (index, question), answer in zip(asked_of, answers, strict=True):
                sheets[index] = question.parse(answer)
        return sheets

    def _call(self, tag: str, questions: list[Question]) -> Call:
        return Call(self._keys.thread(tag), questions)

    async def _threads(self, tenant: str, section: Section) -> Sheet:
        if section.name is not None:
            return await self._named(tenant, section.name)
        found = await self._hints.numbered(section.low, section.high, section.limit)
        there = await self._rows(found)
        after = found[-1][0] + 1 if len(found) == section.limit else None
        return Sheet(list(of_tenant(tenant, section, there)), after)

    async def _rows(self, threads: Sequence[tuple[int, str]]) -> list[Columns]:
        """The rows of threads that are there, as they are stored, by their keys and tags."""
        made = []
        for key, tag in threads:
            made.append(self._call(tag, [Question("survey_thread", (key,), bytes)]))
            self._hints.note(key, tag)
        replies = await redis_calls.one_by_one(self._wire, made)
        return [unpacked(ThreadRow, row) for _, _, row in replies if row is not None]

    async def _named(self, tenant: str, name: str) -> Sheet:
        tag = tag_of(ThreadName(tenant, name))
        row = await self._wire.one("HGET", self._keys.thread(tag), "t")
        if row is None:
            return Sheet([], None)
        columns = unpacked(ThreadRow, row)
        self._hints.note(columns[0], tag)
        return Sheet([columns], None)

    async def tenants(self) -> list[str]:
        """Who has a thread that was not deleted.

        Reads the row of every thread, as each survey of threads does: keys have tenants as hashes,
        so there is nothing else from which a name could be told.
        """
        found: list[str] = []
        low: int | None = 0
        while low is not None:
            threads = await self._hints.numbered(low, TOP, PAGE)
            rows = await self._rows(threads)
            found = told([*found, *(row[_TENANT] for row in rows if row[_STATE] != DELETED)])
            low = threads[-1][0] + 1 if threads else None
        return found

    async def checkup(self) -> list[Problem]:
        """What is wrong with threads as a whole."""
        found: list[Problem] = []
        known: set[str] = set()
        low: int | None = 0
        while low is not None:
            threads = await self._hints.numbered(low, TOP, PAGE)
            remains = await self._remains([tag for _, tag in threads])
            for (key, tag), reply in zip(threads, remains, strict=True):
                found += surveys.problems(key, reply)
                row = surveys.living(key, reply)
                if row is not None:
                    found += await self._hinted(row, tag)
                    known.add(tag)
                else:
                    found += await self._numbered(key, tag)
                    known |= {tag} if reply[0] is None else set()  # it has been told
            low = threads[-1][0] + 1 if threads else None
        return found + await self._unnumbered(known)

    async def _remains(self, tags: Sequence[str]) -> list[list[Any]]:
        made = [self._call(tag, [Question("remains", (), list)]) for tag in tags]
        return [reply for _, _, reply in await redis_calls.one_by_one(self._wire, made)]

    async def _unnumbered(self, known: set[str]) -> list[Problem]:
        """What is wrong with threads that no key leads to: checkpoints do, in the index of ids."""
        found: list[Problem] = []
        for table in range(0, BUCKETS, TABLES):
            tags = await self._hints.tags_in(range(table, table + TABLES))
            others = sorted(tags - known)
            known |= tags
            for tag, reply in zip(others, await self._remains(others), strict=True):
                key = await self._key_in(tag, reply)
                leads = None if key is None else await self._hints.hinted(key)
                if key is not None and leads != tag:
                    found += surveys.problems(key, reply)
                    found += surveys.unreachable(key, reply, taken=leads is not None)
        return found

    async def _key_in(self, tag: str, reply: list[Any]) -> int | None:
        """The key of a thread, by its row or by that of a checkpoint; None: it is not there."""
        row, seqs = reply[0], reply[1]
        cls: Any = ThreadRow
        if row is None and seqs:
            cls = CheckpointRow
            row = await self._wire.one("HGET", f"{self._keys.thread(tag)}:c", seqs[0])
        found = None if row is None else intact(cls, unpacked(cls, row))
        return None if found is None else int(found.thread)

    async def _numbered(self, key: int, tag: str) -> list[Problem]:
        """What is wrong with the version of a thread that was deleted: no survey reads it."""
        version = await self._wire.one("HGET", self._keys.thread(tag), "v")
        if version is None or version.isdigit():
            return []
        return [Problem("seal", f"thread #{key}", "its version was changed by something else.")]

    async def _hinted(self, row: ThreadRow, tag: str) -> list[Problem]:
        """What is missing beside a thread: it, or a checkpoint of it, is not found there."""
        ids: list[bytes] = await self._wire.one("HKEYS", f"{self._keys.thread(tag)}:i")
        lost = await self._hints.lost(row, tag, ids)
        if not lost:
            return []
        now = await self._wire.one("HGET", self._keys.thread(tag), "t")
        if now is None or unpacked(ThreadRow, now)[: len(row)] != tuple(row):
            return []  # it is changing: what a writer may explain is not reported
        where, message = f"thread #{row.thread}", f"it is missing from {', '.join(lost)}."
        return [Problem("index", where, message, repairable=True)]

    async def weighed(self, key: int) -> Footprint:
        """What one thread takes, stretch by stretch."""
        tags = await self._hints.tags([key])
        if key not in tags:
            return Footprint(0, 0, 0, 0)
        pieces: list[list[Any]] = []
        low, size = 0, surveys.STRETCH
        while not pieces or size in (pieces[-1][0], pieces[-1][4]):
            asked = Question("weight", (key, low, low + size - 1), list)
            ((_, _, piece),) = await redis_calls.together(
                self._wire, [self._call(tags[key], [asked])]
            )
            pieces.append(piece)
            low += size
        return surveys.weighed(pieces)
