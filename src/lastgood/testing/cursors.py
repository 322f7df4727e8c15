"""Cursors are only data: whatever is given as `after`, a listing stays where it was asked."""

from __future__ import annotations

from lastgood.testing.cases import case
from lastgood.testing.operations import save
from lastgood.testing.store import Store

FUTURE = 2**52
"""A time, in microseconds: the year 2112."""
CURSORS = {f"2**{bits}": 2**bits for bits in (31, 32, 33, 40, 61)}


@case("S66", each=CURSORS)
async def a_huge_cursor(store: Store, cursor: int) -> None:
    """Neither another thread nor another tenant is reached from a log or a list of threads."""
    ours, theirs = store.client(tenant="A"), store.client(tenant="B")
    for number in range(3):
        for client, tenant in ((ours, "A"), (theirs, "B")):
            for thread in ("s", "t"):
                await save(client, thread, {"n": number}, metadata={"of": tenant + thread})
    for after in (cursor - 1, cursor, cursor + 1, cursor + 2):
        for client, tenant in ((ours, "A"), (theirs, "B")):
            for thread in ("s", "t"):
                found = await client.log(thread, after=str(after))
                assert [h.metadata["of"] for h in found] == [tenant + thread] * 3
                assert [h.session_id for h in found] == [thread] * 3
                found = await client.log(thread, after=str(after), agent_id="a", branch="main")
                assert len(found) == 3
            page = await client.threads(after=f"{FUTURE + after}:{after}", sort="created")
            assert [info.thread_id for info in page] == ["t", "s"]
            assert list(await client.threads(after=f"{after}:{after}")) == list(page)
            assert [info.checkpoints for info in page] == [3, 3]
