"""Rows as they were before the last change: whole, but not what was written last."""

from __future__ import annotations

import pytest

from lastgood import CheckpointIntegrityError
from lastgood.client import Client
from lastgood.commits import Scope
from lastgood.ids import read_id
from lastgood.rows import BranchRow, seal_of
from lastgood.testing.cases import case
from lastgood.testing.operations import save
from lastgood.testing.store import Store, core_of, driven


async def _put_back(store: Store, client: Client, agent: str, head: str) -> Client:
    """The branch of the newest agent ends at an earlier checkpoint; somebody who opens it then."""
    core = core_of(client)
    found = await driven(client, core.backend.look(Scope(core.tenant, "s", agent)))
    assert found.branch is not None
    row: BranchRow = found.branch._replace(head=read_id(head) or b"")
    await store.close()
    store.harness.edit_row("branch", "s", "head", row.head)
    store.harness.edit_row("branch", "s", "seal", seal_of(row))
    return store.client()


@case()
async def an_only_branch_that_went_back(store: Store) -> None:
    """It is no older state that comes back as the latest, but an error; verify finds it."""
    client = store.client()
    ids = [await save(client, "s", {"n": number}) for number in range(3)]
    client = await _put_back(store, client, "a", ids[1])
    with pytest.raises(CheckpointIntegrityError, match="only branch ends at @2"):
        await client.latest(agent_id="a", session_id="s")
    with pytest.raises(CheckpointIntegrityError, match="only branch ends at @2"):
        await save(client, "s", {"n": 4})
    assert (await client.restore(ids[2])).state == {"n": 2}
    (problem,) = (await client.verify()).problems
    assert (problem.kind, problem.where) == ("head", "s/a branch main")
    assert problem.repairable
    assert "@3" in problem.message


@case()
async def one_of_two_branches_that_went_back(store: Store) -> None:
    """What no branch leads to is found, also when the branch has gone on since."""
    client = store.client()
    await save(client, "s", {"n": 0})
    first = await client.save("b", session_id="s", execution_state={"n": 1})
    await client.save("b", session_id="s", execution_state={"n": 2})
    client = await _put_back(store, client, "b", first)
    for _ in range(2):
        (problem,) = (await client.verify()).problems
        assert (problem.kind, problem.where) == ("head", "s/b branch main")
        await client.save("b", session_id="s", execution_state={"n": 3})


@case()
async def a_head_that_was_passed_over(store: Store) -> None:
    """A head that is over its time is left behind by the next save: nothing was lost."""
    client = store.client()
    await save(client, "s", {"n": 0})
    await save(client, "s", {"n": 1}, ttl_seconds=1)
    await store.pass_time(1.5)
    await save(client, "s", {"n": 2})
    assert (await client.verify(data=True)).clean


@case()
async def a_thread_that_went_back(store: Store) -> None:
    """Checkpoints that it does not know any more are named: it may give out their numbers again."""
    client = store.client()
    core = core_of(client)
    await save(client, "s", {"n": 0})
    before = (await driven(client, core.backend.look(Scope(core.tenant, "s")))).thread
    await save(client, "s", {"n": 1})
    newest = (await driven(client, core.backend.look(Scope(core.tenant, "s")))).thread
    assert before is not None
    assert newest is not None
    await store.close()
    for column, value in before._asdict().items():
        if value != getattr(newest, column):
            store.harness.edit_row("thread", "s", column, value)
    store.harness.edit_row("thread", "s", "seal", seal_of(before))
    report = await store.client().verify()
    # A file that its thread does not know is what is left of a save that was not finished.
    told = ("head", "s/a branch main") if core.backend.copies else ("count", "s@2")
    assert told in {(problem.kind, problem.where) for problem in report.problems}
