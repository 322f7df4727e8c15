"""Putting checkpoints and writes: operations over a `Core`.

A checkpoint, its alias and the notes of its run and of its revision are one commit. Writes may come
before or after their checkpoint. They never begin a thread: those of a thread that is not there are
parked for a day, out of sight, and taken over when it begins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, cast

import ormsgpack
from langgraph.checkpoint.base import Checkpoint

from lastgood.adapters.graph_names import Spot, revised_place, run_place
from lastgood.adapters.langgraph.leftovers import as_before, brought, differing, staying
from lastgood.adapters.langgraph.memory import Entry, Memory
from lastgood.adapters.langgraph.parking import may_be_parked, park, take_over
from lastgood.adapters.langgraph.shapes import (
    FRAMEWORK,
    Context,
    NewWrite,
    in_its_place,
    step_name,
    write_drafts,
)
from lastgood.alias_rules import Known, SaveAs
from lastgood.building import build_state
from lastgood.codec import Dropped
from lastgood.commits import Scope
from lastgood.core import About, Captured, Core
from lastgood.errors import CheckpointNotFoundError, SerializationError
from lastgood.item_rules import ChangeItemsBeside, ItemDraft
from lastgood.manifest import Stored, may_have
from lastgood.rows import CheckpointRow
from lastgood.rules import Save
from lastgood.shelving import change_items
from lastgood.splitting import rebased, split
from lastgood.tree import Fields, Leaf, Node, settled

_START = ormsgpack.packb("__start__")


class Put(NamedTuple):
    """A checkpoint on its way: captured, and where it goes."""

    spot: Spot
    context: Context
    intent: SaveAs
    run: str | None
    branch: str | None = None
    """The branch that it is to be on; else that of what it follows."""
    left: frozenset[str] = frozenset()
    """Channels that are to be taken over from what it follows, if that was not at hand."""


class Putting:
    """Puts checkpoints and writes into one store."""

    def __init__(self, core: Core, memory: Memory) -> None:
        self._core = core
        self._memory = memory

    # on the caller's thread

    def capture(
        self,
        spot: Spot,
        checkpoint: Checkpoint,
        metadata: Mapping[str, Any],
        new_versions: Mapping[str, Any],
        parent: str | None,
    ) -> Put:
        """Encode the channels that are new; the others are taken over from the parent."""
        known = self._memory.get(spot, parent)
        context = Context.of(checkpoint, parent)
        values = self._hooked(checkpoint["channel_values"])
        left = frozenset[str]()
        if parent is not None:
            left = staying(checkpoint, values.keys(), new_versions)
        captured = self._captured(spot, context, values, known, left)
        step = metadata.get("step")
        before = known.seen if known else ({} if parent is None else None)
        about = About(
            agent=spot.lane,
            framework=FRAMEWORK,
            step=step if type(step) is int else None,
            step_name=step_name(metadata, context.seen, before),
            context=context.stored(),
            metadata=metadata,
        )
        run = metadata.get("run_id")
        run = run if isinstance(run, str) else None
        save = Save(
            tenant=self._core.tenant,
            thread=spot.thread,
            draft=self._core.draft(captured, about),
            branch=known.branch if known else None,
            parent=known.id if known else None,
            holder=known.thread if known else self._held(spot, metadata),
            owner=self._core.options.user,
            switch=True,
        )
        intent = SaveAs(
            save,
            spot.alias(context.id),
            parent=spot.alias(parent) if parent is not None else None,
            parent_id=known.id if known else b"",
            beside=self._noted(spot.thread, run),
        )
        return Put(spot, context, intent, run, left=left)

    def _held(self, spot: Spot, metadata: Mapping[str, Any]) -> int | None:
        """The thread, by its key, in which the graph around a subgraph is.

        A subgraph begins without a parent, but must not bring back a thread that was deleted. What
        a run puts at its exit alone is not known yet: then it is the thread that was seen last.
        """
        outer = metadata.get("parents")
        if not spot.namespace or not isinstance(outer, Mapping) or not outer:
            return None
        known = (self._memory.get(Spot(spot.thread, name), id) for name, id in outer.items())
        seen = self._memory.thread(spot.thread)
        return next((entry.thread for entry in known if entry is not None), seen)

    def _captured(
        self,
        spot: Spot,
        context: Context,
        values: Mapping[str, Any],
        known: Entry | None,
        left: Collection[str],
    ) -> Captured:
        base = self._core.cache.get(known.id) if known else None
        id = known.id if known else b""
        if known is None and spot.namespace:
            id, base = self._around(spot)
        encoder = self._core.codec.encoder()
        tree = base.tree if base else None
        same = as_before(left, context.versions, known.versions) if known else set[str]()
        if same and tree is not None:
            values = brought(self._core.codec, tree, same, values)
        if spot.namespace and isinstance(tree, Fields):
            tree = crossed(tree, starts="__start__" in values)
        made = split(encoder, values, tree, same=same)
        if isinstance(made, Dropped):
            raise SerializationError("the channel values cannot be stored.", path="state")
        return self._core.captured(made, encoder, id, base)

    def _hooked(self, channels: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the user's hook makes of the values of some channels."""
        hook = self._core.options.before_save
        if hook is None:
            return channels
        kept = hook(dict(channels))
        if not isinstance(kept, Mapping):
            raise TypeError(
                f"before_save returned {type(kept).__name__} for the channels "
                f"{', '.join(channels)}. Let it return a dict of channels and their values."
            )
        return dict(kept)

    def write_drafts(
        self, spot: Spot, id: str, writes: Iterable[NewWrite], run: str | None = None
    ) -> tuple[ItemDraft, ...]:
        """Encode writes, after the user's hook has had each as a channel with its value."""
        if self._core.options.before_save is not None:
            kept = [(write, self._hooked({write.channel: write.value})) for write in writes]
            writes = [made for write, of in kept if (made := _hooked_write(write, of))]
        return write_drafts(self._core.codec, spot, id, writes, run)

    def _around(self, spot: Spot) -> tuple[bytes, Stored | None]:
        """What a subgraph begins with is mostly a copy of the state of the graph around it."""
        id = self._core.cache.last_seen((spot.thread, spot.around.lane))
        found = self._core.cache.get(id)
        return id, found._replace(tree=settled(found.tree)) if found else None

    def _noted(self, thread: str, run: str | None) -> tuple[ItemDraft, ...]:
        """The note that a run wrote to the thread, unless it is there."""
        if run is None or self._memory.is_noted(thread, run):
            return ()
        return (ItemDraft(*run_place(run), b"", first_wins=True),)

    # checkpoints

    async def put(self, put: Put) -> CheckpointRow:
        """Commit a checkpoint under its alias."""
        with self._memory.putting(put.spot.thread):
            return await self._put(put)

    async def _put(self, put: Put) -> CheckpointRow:
        core, intent = self._core, put.intent
        source = intent.save.draft.base  # what the channels that stay were taken from
        while True:
            if intent.parent_id != source:
                intent, source = await self._completed(intent, put), intent.parent_id
            again = await self._same(intent)
            if again is not None:
                return again
            if intent.save.branch is None or intent.save.draft.stored is None:
                save = await core.with_base(await core.on_parents_branch(intent.save))
                intent = replace(intent, save=save)
            writes = await core.backend.commit(intent)
            if not isinstance(writes.answer, Known):
                break
            intent = _corrected(intent, writes.answer, put)
        row = core.committed(intent.save, writes)
        draft = intent.save.draft
        if draft.stored is not None and draft.base != put.intent.parent_id:
            core.cache.put(draft.base, draft.stored)  # it was another line's, which goes on
        if may_be_parked(put.spot, put.context.parent, row.seq):
            await take_over(core, put.spot.thread)
        self._remember(put, row)
        return row

    async def _completed(self, intent: SaveAs, put: Put) -> SaveAs:
        """With the channels that stay as the parent has them, which was not cached or not known.

        Mostly they are the same already.
        """
        core, draft, id = self._core, intent.save.draft, intent.parent_id
        if not id or not put.left:
            return intent
        found = (await core.backend.find(core.tenant, [id])).get(id)
        base = Context.read(core.codec, found.row).versions if found else {}
        names = as_before(put.left, put.context.versions, base)
        if found is None or isinstance(draft.tree, CheckpointRow):
            return intent
        if not any(may_have(found.row.manifest, name) for name in names):
            return intent  # mostly these are channels that a node has consumed
        stored = await core.stored(found.row)
        stays = differing(core.codec, draft.tree, stored.tree, names)
        if stays:
            encoder = core.codec.encoder()
            given = cast("dict[str, Any]", build_state(core.codec, draft.tree))
            made = split(encoder, {**given, **stays}, stored.tree)
            assert not isinstance(made, Dropped), "all of it has been stored or encoded before"
            tree = core.captured(made, encoder, id, stored).tree
        elif draft.stored is None and not isinstance(draft.tree, Leaf):
            tree = rebased(draft.tree, stored.tree)
        else:
            return intent
        draft = draft._replace(tree=tree, base=id, stored=stored)
        return replace(intent, save=intent.save._replace(draft=draft))

    def _remember(self, put: Put, row: CheckpointRow) -> None:
        self._memory.put(put.spot, put.context.id, Entry.of(row, put.context))
        if put.run is not None:
            self._memory.note(put.spot.thread, put.run)

    async def _same(self, intent: SaveAs) -> CheckpointRow | None:
        """The checkpoint that has the alias already, if it is the same in every respect."""
        if intent.replaces is None or not intent.replaces.id:
            return None
        id, draft = intent.replaces.id, intent.save.draft
        found = (await self._core.backend.find(self._core.tenant, [id])).get(id)
        assert not isinstance(draft.tree, CheckpointRow)
        wanted = (draft.tree.hash, draft.context, draft.metadata)
        if found is None or (found.row.root, found.row.context, found.row.metadata) != wanted:
            return None
        return found.row

    # writes

    async def put_writes(
        self, spot: Spot, drafts: tuple[ItemDraft, ...], run: str | None = None
    ) -> None:
        """Commit writes of a task; park them if there is no thread."""
        core, thread = self._core, spot.thread
        puts = (*drafts, *self._noted(thread, run))
        intent = ChangeItemsBeside(core.tenant, thread, puts=puts, opens=False, novel=True)
        if not drafts:
            return
        with self._memory.putting(thread):
            done = (await change_items(core, intent)).done
        if done:
            if run is not None:
                self._memory.note(thread, run)
            return
        await park(core, thread, drafts)
        # It may have begun in between, and then have looked before these were there.
        if (await core.backend.look(Scope(core.tenant, thread))).live is not None:
            await take_over(core, thread)


def _hooked_write(write: NewWrite, kept: Mapping[str, Any]) -> NewWrite | None:
    """A write as the user's hook has left it."""
    if write.channel in kept:
        return write._replace(value=kept[write.channel])
    return in_its_place(write)


def crossed(tree: Fields, *, starts: bool) -> Fields:
    """A base whose channels are also found in the input, or its input in the channels.

    What a subgraph is given is mostly the channels of the graph around it, and what it gets out of
    that becomes its own channels: without this, both would be stored once more.
    """
    given = tree.children.get(_START)
    if starts and given is None:
        below = Fields(tree.kind, tree.extra, _beside(tree))
        return Fields(tree.kind, tree.extra, {**tree.children, _START: below})
    if not starts and isinstance(given, Fields):
        return Fields(tree.kind, tree.extra, {**_beside(given), **tree.children})
    return tree


def _beside(fields: Fields) -> dict[bytes, Node]:
    return {key: settled(child) for key, child in fields.children.items()}


def _corrected(intent: SaveAs, known: Known, put: Put) -> SaveAs:
    """The same with what the store says of the aliases; raises if the parent was there and went.

    Without it, the line would begin anew and delta channels would lose what they had. A checkpoint
    that is there already is left what it needs of a parent that goes.
    """
    if intent.parent_id and known.parent is None and known.own is None:
        raise _late(put)
    parent_id = known.parent.id if known.parent else b""
    follows = known.own.id if known.own and known.own.id else parent_id
    save = intent.save._replace(parent=follows or None, branch=put.branch)
    beside = intent.beside
    if known.own and known.own.id:
        note = ItemDraft(*revised_place(intent.place), b"", first_wins=True)
        beside = tuple(dict.fromkeys((*beside, note)))
    return replace(intent, save=save, parent_id=parent_id, replaces=known.own, beside=beside)


def _late(put: Put) -> CheckpointNotFoundError:
    return CheckpointNotFoundError(
        f"checkpoint {put.context.parent} of thread {put.spot.thread!r} was removed while a run "
        "still went on from it.",
        hint="Begin the run again: it goes on from the newest checkpoint that is left.",
    )
