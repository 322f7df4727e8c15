"""Runs: the way to survive a crash.

A run is one unit of work on a lane, from its first entry to an exit without error. Entering puts
the state of the last good step into `run.state`; `save` commits a step on top of it and refuses
when somebody else moved the head. Leaving the block saves nothing and swallows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from lastgood import arguments, paths
from lastgood.building import build_state, grafted, list_at
from lastgood.codec import Encoder
from lastgood.colours import AsyncOnly
from lastgood.commits import Scope
from lastgood.core import About, Captured, Core
from lastgood.driver import Driver, Operation, is_blocking
from lastgood.errors import CheckpointNotFoundError, LastgoodError, RunStateError, StorageError
from lastgood.ids import show_id
from lastgood.manifest import Stored
from lastgood.model import KEEP, Sentinel
from lastgood.pending import TRIES, Pending, Seen, never_alone
from lastgood.rows import CheckpointRow
from lastgood.rules import REMOVED, Save, moved_on
from lastgood.run_rules import Beat, Enter, Leave, Outcome, Place, Settle, outcome_of
from lastgood.splitting import Addition, addition
from lastgood.thread_rules import check_holder

S = TypeVar("S")


class Run(AsyncOnly, Generic[S]):
    """One unit of work on an agent's lane, made by `client.run(...)`."""

    branch: str | None
    """The branch that it saves on; None before the first step of an empty lane."""
    attempt: int
    """How often the run has been entered, this time included."""
    is_new: bool
    """Whether the lane was empty when the run was entered."""
    resumed: bool
    """Whether it continues a run that was left open by a crash, an error or a signal."""

    __reduce__ = arguments.not_picklable

    def __init__(
        self, core: Core, driver: Driver, place: Place, initial: S | Callable[[], S] | None
    ) -> None:
        self._core = core
        self._driver = driver
        self._place = place
        self._initial = initial
        self._state: Any = None
        self._row: CheckpointRow | None = None
        self._thread = 0
        self._run = b""
        self._unsettled: tuple[bytes, ...] = ()
        self._pending: Pending | None = None
        self._grown = self._broken_off = 0
        self._in_turn = driver.serial()
        self._phase = "new"
        self._given_up = False
        self.session_id = place.session_id
        self.agent_id = place.agent_id
        self.branch = place.branch
        self.attempt = 0
        self.is_new = False
        self.resumed = False

    @property
    def state(self) -> S:
        """The working copy: at first the state of the last good step, else `initial`, else None."""
        if self._phase == "new":
            self._check_open()
        return self._state  # type: ignore[no-any-return]

    @state.setter
    def state(self, value: S) -> None:
        if self._phase == "new":
            self._check_open()
        self._state = value

    @property
    def run_id(self) -> str:
        """The id of the run, which stays the same when an open run is entered again."""
        return show_id(self._run)

    @property
    def base(self) -> str | None:
        """The id of the checkpoint that the next save follows; None in an empty lane."""
        return self._row.label if self._row else None

    @property
    def step_index(self) -> int | None:
        """The step index of the checkpoint that the next save follows; None in an empty lane."""
        return self._row.step if self._row else None

    # entering and leaving

    async def __aenter__(self) -> Self:
        if self._phase != "new":
            raise RunStateError("a run is entered once.", hint="Make another with client.run(...).")
        core, place = self._core, self._place
        scope = Scope(core.tenant, place.session_id, place.agent_id, place.branch)
        self._row, self._thread, self._given_up = None, 0, False
        try:
            found = await self._driver.run(core.backend.look(scope))
            stored = await self._driver.to_the_end(self._entry(empty=found.tip is None))
            if not self._thread:  # what was there is gone by now
                stored = await self._driver.to_the_end(self._entry(empty=True))
            self._state = build_state(core.codec, stored.tree) if stored else None
            core.pulse.add(self._beat)
        except BaseException as error:
            self._given_up = True
            if self._thread:
                core.pulse.remove(self)
                await self._record(error)
            raise
        self._phase = "open"
        return self

    def _entry(self, *, empty: bool) -> Operation[Stored | None]:
        core, wanted = self._core, self._initial is not None
        first = self._first_save() if empty and wanted else None
        looked = wanted and not empty
        return self._enter(self._place.entry(core.tenant, core.options.user, first, looked=looked))

    def _first_save(self) -> Save:
        """Step 0 of an empty lane. A callable is called here: on the caller's thread, unlocked."""
        initial = self._initial() if callable(self._initial) else self._initial
        captured = self._core.capture(initial, self.session_id, self.agent_id)
        return self._save_intent(captured, About(self.agent_id, ttl=self._place.ttl))

    async def _enter(self, enter: Enter) -> Stored | None:
        """Commit an entry, also where its caller is cancelled: then nobody is in the run."""
        core = self._core
        writes = await core.backend.commit(enter)
        if writes.run is None or writes.thread is None:
            return None
        self._thread = writes.thread.thread
        self._run, self.attempt = writes.run.id, writes.run.attempt
        self.resumed = writes.run.attempt > 1
        if self._given_up:
            await self._leave(Outcome("stale", closed=False, error="CancelledError"))
            return None
        if writes.checkpoint is not None and enter.initial is not None:
            self._row = core.committed(enter.initial, writes)
        elif isinstance(writes.answer, CheckpointRow):
            self._row = writes.answer
        self.is_new = self._row is None or writes.checkpoint is not None
        if self._row is None:
            return None
        self.branch = self.branch or self._row.branch
        core.cache.saw((self.session_id, self.agent_id), self._row.id)
        return await core.stored(self._row)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._core.pulse.remove(self)
        finished, self._phase = self._phase == "finished", "left"
        if not finished or error is not None:
            await self._record(error)

    async def _record(self, error: BaseException | None) -> None:
        """Tell the store how the run was left."""
        try:
            await self._driver.to_the_end(self._leave(outcome_of(error)))
        except LastgoodError as failure:
            if error is None:
                raise
            error.add_note(f"Lastgood could not record how the run was left: {failure}")

    async def _leave(self, outcome: Outcome) -> None:
        core, holder = self._core, self._thread or None
        leave = Leave(core.tenant, self._place, self._run, self.attempt, outcome, self._row, holder)
        await core.backend.commit(leave)

    async def _beat(self) -> None:
        core = self._core
        beat = Beat(core.tenant, self.session_id, self.agent_id, self._run, self.attempt)
        await core.backend.commit(beat)

    # steps

    async def save(
        self,
        state: S | Sentinel = KEEP,
        *,
        step_name: str | None = None,
        context: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Commit a step: `run.state`, or the state given, which then becomes the working copy.

        When this returns, the step is as safe as the store is durable. Raises StaleWriterError if
        somebody moved the head, ThreadDeletedError if the thread was deleted; then nothing is kept.
        """
        self._check_open()
        if not isinstance(state, Sentinel):
            arguments.check_state(state, self.state)
        about = self._about(step_name, context, metadata)
        for _ in range(TRIES):
            seen = self._seen()
            again = partial(self._save, state, self._captured(state), about, seen)
            label = await self._in_turn(again)
            if label is not None:
                return label
        raise never_alone(f"{self.session_id}/{self.agent_id}")

    def _captured(self, state: S | Sentinel) -> Captured:
        saved = self._state if isinstance(state, Sentinel) else state
        if saved is self._state and self._pending is not None:
            self._pending.show()
        base = self._row.id if self._row else b""
        return self._core.capture(saved, self.session_id, self.agent_id, base)

    def _seen(self) -> Seen:
        """Tasks come in the order of their calls, so to them only what was given comes between."""
        return Seen(self.base if is_blocking() else None, self._grown, self._broken_off)

    async def _save(
        self, state: S | Sentinel, captured: Captured, about: About, seen: Seen
    ) -> str | None:
        """In turn: of several states given at once, the last to be stored is the working copy.

        None for who was overtaken and has a hook: that may wait for what others hold who wait for
        their turn, so it is called out of turn.
        """
        working = isinstance(state, Sentinel) or state is self._state
        if not working:
            self._state = state
            self._grown += 1
        await self._settle()
        if working and self._seen()[:2] != seen[:2]:
            if self._core.options.before_save is not None:
                return None
            captured = self._captured(state)
        label = await self._commit(self._save_intent(captured, about))
        # Who was called before an interrupt leaves it to be recognised by its repetition.
        if not (working and seen.broken_off != self._broken_off):
            self._pending = None
        return label

    async def append(self, path: str, *items: Any, step_name: str | None = None) -> str:
        """Commit the last good step with items appended to the list at `path`, and nothing else.

        Appends to `run.state` as well. Costs the same however long the list is. Raises KeyError for
        a path that is not there, and TypeError for one that leads to no list. An interrupted call
        may be repeated as the very next call: the items are then appended once.
        """
        self._check_open()
        about = self._about(step_name)
        encoder = self._core.codec.encoder()
        steps = paths.parse(path)
        added = addition(encoder, steps, items, lambda: len(list_at(self.state, steps)))
        done: list[Pending] = []
        try:
            return await self._in_turn(lambda: self._append(added, items, about, encoder, done))
        except BaseException:
            self._broken_off += 1
            self._remember(done)
            raise

    def _remember(self, done: list[Pending]) -> None:
        """An interrupt came between the end of an append and its return: its caller may repeat."""
        if done and self._pending is None and self._row and self._row.id in done[0].ids:
            self._pending = done[0]

    async def _append(
        self,
        added: Addition,
        items: tuple[Any, ...],
        about: About,
        encoder: Encoder,
        done: list[Pending],
    ) -> str:
        if self._pending is not None:
            self._pending.show()
        target = list_at(self.state, added.steps)
        stored = await self._base()
        assert self._row is not None
        before = self._pending
        missing = before.added if before and self._row.id not in before.ids else ()
        if before is not None and added in before.added:
            if not missing:
                done.append(before)
                self._pending = None
                return self._row.label
            items = ()
        every = missing if added in missing else (*missing, added)
        tree = stored.tree
        for each in every:
            tree = grafted(self._core.codec, encoder, tree, each)
        captured = self._core.captured(tree, encoder, self._row.id, stored)
        intent = self._save_intent(captured, about)
        pending = Pending(every, target, items)
        label = await self._shown(intent, pending, before)
        done.append(pending)
        self._pending = None
        return label

    async def _shown(self, intent: Save, pending: Pending, before: Pending | None) -> str:
        """Commit an append and show it in `run.state`, whenever we may be interrupted."""
        self._pending = pending
        self._grown += 1
        try:
            label = await self._commit(intent)
        except Exception as error:
            if isinstance(error, StorageError) and error.in_doubt:
                pending.show()  # it may have happened: a later save must not leave it out
            else:
                self._pending = before
            raise
        pending.show()
        return label

    async def _base(self) -> Stored:
        """What an append goes on from, read again if it has to be."""
        await self._settle()
        if self._row is None:
            raise KeyError("the lane is empty: there is nothing to append to. Save a state first.")
        stored = self._core.cache.of(self._row)
        return stored if stored is not None else await self._driver.run(self._load(self._row))

    async def _load(self, row: CheckpointRow) -> Stored:
        try:
            return await self._core.stored(row)
        except CheckpointNotFoundError:
            scope = Scope(self._core.tenant, self.session_id, self.agent_id, self.branch)
            found = await self._core.backend.look(scope)
            check_holder(self._thread, found, self.session_id)
            raise moved_on(f"{self.session_id}/{self.agent_id}", found, None, REMOVED) from None

    async def finish(self, result: Any = None) -> None:
        """Mark the work as done, with an optional result: the thread's status becomes `done`.

        Raises StaleWriterError if somebody else has entered the run and saved in it.
        """
        self._check_open()
        packed = b"" if result is None else self._core.codec.pack_whole(result, "result")
        await self._in_turn(lambda: self._finish(packed))
        self._phase = "finished"

    async def _finish(self, result: bytes) -> None:
        await self._settle()
        await self._driver.run(self._leave(Outcome("done", closed=True, result=result)))

    def _about(self, step_name: str | None, context: Any = None, metadata: Any = None) -> About:
        about = About(self.agent_id, ttl=self._place.ttl, context=context, metadata=metadata)
        return about._replace(step_name=arguments.name(step_name, "step_name"))

    def _save_intent(self, captured: Captured, about: About) -> Save:
        return Save(
            tenant=self._core.tenant,
            thread=self.session_id,
            draft=self._core.draft(captured, about),
            branch=self.branch,
            parent=self._row.id if self._row else None,
            on_conflict="reject",
            holder=self._thread or None,
            owner=self._core.options.user,
            follows=self._place.branch is None,
        )

    async def _commit(self, intent: Save) -> str:
        """Commit a step. Whoever is interrupted here does not learn the outcome."""
        await self._core.pulse.step(self)
        self._unsettled = (*self._unsettled, intent.draft.id)
        if self._pending is not None:
            self._pending.ids.add(intent.draft.id)
        row = await self._driver.run(self._core.save(intent))
        self._row, self._unsettled = row, ()
        self.branch = row.branch
        return row.label

    async def _settle(self) -> None:
        """Recognise our own work: a commit that was interrupted may have happened after all."""
        if not self._unsettled:
            return
        core, where = self._core, (self.session_id, self.agent_id, self.branch)
        intent = Settle(core.tenant, *where, self._unsettled)
        head = (await self._driver.run(core.backend.commit(intent))).answer
        if isinstance(head, CheckpointRow):
            self._row = head
        self._unsettled = ()

    def _check_open(self) -> None:
        if self._phase != "open":
            raise RunStateError(
                f"run {self.session_id}/{self.agent_id} is not open ({self._phase}).",
                hint="Use it inside its `with` block, before finish().",
            )
