"""What all operations share: capturing a state, committing it, loading it back.

A `Core` is one backend, one codec, one cache and the options of a client; both colours of a
client sit on the same one. Methods that are not coroutines run on the caller's thread before
anything suspends; user functions are called only there. Coroutines await nothing but the backend.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lastgood import manifest, tree
from lastgood.backend import Backend, Extents, Located
from lastgood.building import ANEW, Making, build_state
from lastgood.cache import TreeCache
from lastgood.checkpoints import Checkpoint, pack_mapping
from lastgood.codec import Codec, Dropped, Encoder, Loss
from lastgood.commits import Found, Scope, Writes
from lastgood.driver import Driver, Native, Worker
from lastgood.errors import (
    CheckpointIntegrityError,
    CheckpointNotFoundError,
    LastgoodError,
    SerializationError,
    an,
)
from lastgood.filling import Filling
from lastgood.growing import Growing, Sharing
from lastgood.headers import checkpoint_of, header_of
from lastgood.ids import new_id, read_id
from lastgood.losses import listed, pack_losses, read_losses
from lastgood.manifest import Spot, Stored
from lastgood.model import DEFAULT_TENANT, Framework, Header, Sentinel, micros
from lastgood.pulse import Pulse, pulse
from lastgood.rows import CheckpointRow, read_slots
from lastgood.rules import Draft, Save
from lastgood.splitting import rebased, split
from lastgood.tree import Leaf, Node


@dataclass(frozen=True, slots=True)
class Options:
    """The options that every factory takes, with what they mean."""

    tenant: str = DEFAULT_TENANT
    user: str | None = None
    max_state_bytes: int = 64 << 20
    before_save: Callable[[Any], Any] | None = None
    heartbeat_seconds: float = 10.0
    stale_after_seconds: float = 60.0
    cache_bytes: int = 64 << 20


class Captured(NamedTuple):
    """A state as it was at one moment, encoded."""

    tree: Node
    losses: tuple[Loss, ...]
    base: bytes = b""
    stored: Stored | None = None


class About(NamedTuple):
    """What a caller says of a checkpoint besides its state; 0 and empty mean "as usual"."""

    agent: str
    id: bytes = b""
    framework: str = Framework.CUSTOM.value
    step: int | None = None
    step_name: str | None = None
    created_at: int = 0
    ttl: float | Sentinel | None = None
    context: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] | None = None
    target: str | None = None
    schema: str | None = None


class Loaded(NamedTuple):
    """A checkpoint read from the store, not yet turned into values."""

    located: Located
    stored: Stored


@dataclass(slots=True)
class Core:
    """The shared half of a client."""

    backend: Backend
    codec: Codec
    options: Options
    cache: TreeCache = field(init=False)
    pulse: Pulse = field(init=False)
    driver: Driver = field(init=False)
    """How async callers run operations; blocking ones run them directly."""

    def __post_init__(self) -> None:
        self.cache = TreeCache(self.options.cache_bytes)
        self.pulse = pulse(self.backend.pulse, self.options.heartbeat_seconds)
        apart = self.backend.pulse != "steps"
        self.driver = Worker() if self.backend.blocking else Native(apart=apart)

    @property
    def tenant(self) -> str:
        return self.options.tenant

    # capturing: on the caller's thread

    def capture(self, state: object, thread: str, agent: str, base: bytes = b"") -> Captured:
        """Encode a state, after the user's hook has had it."""
        return self.encode(self.hooked(state), thread, agent, base)

    def hooked(self, state: object) -> object:
        """What the user's hook makes of a state; raises TypeError if it forgets to return it."""
        hook = self.options.before_save
        kept = state if hook is None else hook(state)
        if kept is None and state is not None:
            raise TypeError("before_save returned None. Let it return the state to store.")
        return kept

    def encode(self, state: object, thread: str, agent: str, base: bytes = b"") -> Captured:
        """Encode a state, against the tree of `base` or of what was last seen in the lane."""
        encoder = self.codec.encoder()
        base = base or self.cache.last_seen((thread, agent))
        stored = self.cache.get(base) if base else None
        made = split(encoder, state, stored.tree if stored else None)
        if isinstance(made, Dropped):
            raise SerializationError(
                f"state: {an(type(state).__name__)} cannot be a state.", path="state"
            )
        return self.captured(made, encoder, base, stored)

    def captured(
        self, made: Node, encoder: Encoder, base: bytes, stored: Stored | None
    ) -> Captured:
        """Check the size of a tree and put it with what it was made from."""
        if made.size > self.options.max_state_bytes:
            raise SerializationError(
                f"the state takes {made.size:,} bytes, more than max_state_bytes = "
                f"{self.options.max_state_bytes:,}.",
                path="state",
                hint="Keep large files outside and store their addresses, or raise the limit.",
            )
        losses = listed(encoder.losses)
        return Captured(made, losses, base if stored else b"", stored)

    def draft(self, captured: Captured, about: About) -> Draft:
        """A checkpoint on its way: the captured state and what is said about it."""
        context, lost = pack_mapping(self.codec, about.context, "context")
        metadata, also_lost = pack_mapping(self.codec, about.metadata, "metadata")
        return Draft(
            id=about.id or new_id(),
            agent=about.agent,
            framework=about.framework,
            step=about.step,
            step_name=about.step_name,
            created_at=about.created_at or time.time_ns() // 1000,
            ttl=about.ttl,
            context=context,
            metadata=metadata,
            losses=pack_losses((*captured.losses, *lost, *also_lost)),
            tree=captured.tree,
            base=captured.base,
            stored=captured.stored,
            target=about.target,
            schema=about.schema,
            chosen=bool(about.id),
        )

    def copy_draft(self, source: CheckpointRow, about: About) -> Draft:
        """A checkpoint that has the same state as a stored one, and shares its pages."""
        draft = self.draft(Captured(Leaf(b""), read_losses(source.losses)), about)
        return draft._replace(tree=source)

    def put_intent(self, made: Checkpoint) -> Save:
        """The intent to store a built checkpoint under its own id, checksum unchanged."""
        about = About(
            agent=made.agent_id,
            id=read_id(made.checkpoint_id) or b"",
            framework=made.framework,
            step=made.step_index,
            step_name=made.step_name,
            created_at=micros(made.created_at),
            ttl=made.ttl_seconds,
            context=made.agent_context,
            metadata=made.metadata,
            target=made.handoff_target,
            schema=made.handoff_schema,
        )
        parent = read_id(made.parent_id) if made.parent_id else None
        captured = self.encode(made.execution_state, made.session_id, made.agent_id)
        captured = captured._replace(losses=made.losses)
        return Save(
            tenant=self.tenant,
            thread=made.session_id,
            draft=self.draft(captured, about),
            parent=parent,
            owner=self.options.user,
        )

    # committing

    async def save(self, intent: Save) -> CheckpointRow:
        """Commit a checkpoint; gives back its row."""
        intent = await self.with_base(intent)
        writes = await self.backend.commit(intent)
        return self.committed(intent, writes)

    def committed(self, intent: Save, writes: Writes) -> CheckpointRow:
        """Remember what was committed; only now is it known to be there."""
        row, answer, slots = writes.checkpoint, writes.answer, writes.slots
        if row is None:
            assert isinstance(answer, CheckpointRow), "a save writes, or was written before"
            return answer
        if isinstance(answer, Stored):
            stored = answer._replace(slots=slots, place=row.place)
            self.cache.put(row.id, stored, instead_of=intent.draft.base)
        self.cache.saw((intent.thread, intent.draft.agent), row.id)
        return row

    async def with_base(self, intent: Save) -> Save:
        """Lay a large state that was captured without a base over the head it will follow.

        Otherwise the first save of a new process would store everything once more.
        """
        draft = intent.draft
        if draft.stored is not None or isinstance(draft.tree, Leaf | CheckpointRow):
            return intent
        named = intent.parent if isinstance(intent.parent, bytes) else b""
        scope = intent.scope._replace(ids=(named,) if named else (), large=())
        found = await self.backend.look(scope)
        row = found.rows.get(named) or found.tip
        if row is None or found.live is None or row.thread != found.live.thread:
            return intent
        try:
            stored = await self.stored(row)
        except CheckpointNotFoundError:  # removed meanwhile
            return intent
        laid = draft._replace(tree=rebased(draft.tree, stored.tree), base=row.id, stored=stored)
        return intent._replace(draft=laid)

    async def on_parents_branch(self, intent: Save) -> Save:
        """A save that names a parent is about its branch, if the current one reads as another."""
        if intent.branch is not None or not isinstance(intent.parent, bytes):
            return intent
        found = await self.backend.look(intent.scope._replace(ids=(intent.parent,), large=()))
        row, lane = found.rows.get(intent.parent), found.lane
        if row is None or lane is None or (row.thread, row.lane) != (lane.thread, lane.number):
            return intent
        followed = found.branch if found.tip is not None and found.tip.id == row.id else None
        return intent._replace(branch=followed.name if followed else row.branch)

    # loading

    async def stored(self, row: CheckpointRow, near: Stored | None = None) -> Stored:
        """The tree of a checkpoint with all its pages: cached, or read and verified.

        What it shares with the front of a `near` one is not read and hashed again.
        """
        known = self.cache.of(row)
        if known is not None and known.tree.hash == row.root:
            return known
        try:
            found = await self._sure(row, near)
            _check_root(row, found)
        except CheckpointIntegrityError as error:
            if await self._is_gone(row):
                raise _removed(row) from error
            raise
        self.cache.put(row.id, found)
        return found

    async def _is_gone(self, row: CheckpointRow) -> bool:
        """Whether a checkpoint was removed since it was looked up: then its parts may be others."""
        return not await self.backend.find(self.tenant, [row.id])

    async def _sure(self, row: CheckpointRow, near: Stored | None) -> Stored:
        """The tree of a checkpoint; where a copy of it is damaged, from the store itself."""
        try:
            found = await self.fetch(row, near)
        except CheckpointIntegrityError:
            found = None
        if found is not None and found.tree.hash == row.root:
            return found
        forgotten = await self.backend.forget(row.thread)
        return found if found is not None and not forgotten else await self.fetch(row)

    async def fetch(self, row: CheckpointRow, near: Stored | None = None) -> Stored:
        """The tree of a checkpoint as it is stored; its pages are not verified."""
        sketch = await self.sketch(row)
        return sketch._replace(tree=await self._fill(sketch.tree, row, sketch.slots, near))

    async def sketch(self, row: CheckpointRow) -> Stored:
        """The tree of a checkpoint without its pages: small, and not verified by its hash."""
        slots = read_slots(row.slots)
        node, is_skeleton = manifest.read(row.manifest)
        if not is_skeleton:
            return Stored(node, slots, place=row.place)
        skeleton = await self._fill(node, row, slots, checked=True)
        assert isinstance(skeleton, tree.Sequence)
        return Stored(manifest.read_skeleton(skeleton), slots, skeleton, row.place)

    async def _fill(
        self,
        node: Node,
        row: CheckpointRow,
        slots: tuple[manifest.Slot, ...],
        near: Stored | None = None,
        *,
        checked: bool = False,
    ) -> Node:
        filling = Filling(node, slots, near)
        wanted = [
            Extents(row.thread, Spot(slots[slot].stream, first), length, row.seq)
            for slot, first, length, _ in filling.wanted()
        ]
        found = await self.backend.parts(wanted, checked=checked) if wanted else []
        for extent, pages in zip(wanted, found, strict=True):
            if len(pages) != extent.length:
                raise await self.lost(row, extent, extent.length - len(pages))
        return filling.filled(iter(found))

    async def lost(self, row: CheckpointRow, extent: Extents, count: int) -> LastgoodError:
        """Parts are not there: the checkpoint was removed meanwhile, or they are damaged."""
        if await self._is_gone(row):
            return _removed(row)
        return CheckpointIntegrityError(
            f"checkpoint {row.label}: {count} of its parts are missing "
            f"(stream {extent.first.stream}, from {extent.first.number} on)."
        )

    async def load(
        self, located: Located, *, verify: bool = True, near: Stored | None = None
    ) -> Loaded:
        """All that a checkpoint is built from, verified."""
        stored = await self.stored(located.row, near)
        if verify:
            self._verify(located)
        return Loaded(located, stored)

    def built(self, loaded: Loaded, making: Making = ANEW) -> Checkpoint:
        """A checkpoint with its state: on the caller's thread, for users' decoders run here."""
        state = build_state(self.codec, loaded.stored.tree, making)
        return checkpoint_of(loaded.located, self.codec, state)

    def built_line(self, newest_first: list[Loaded], *, shared: bool) -> list[Checkpoint]:
        """The same for checkpoints of which each grew out of the next."""
        making = Sharing() if shared else Growing()
        return [self.built(loaded, making) for loaded in newest_first[::-1]][::-1]

    def _verify(self, located: Located) -> None:
        row, agent = located.row, located.agent
        if self.cache.is_verified(row.id, (row, agent)):
            return
        if row.chained(agent) != row.digest:
            raise CheckpointIntegrityError(
                f"checkpoint {row.label}: its fields do not give its digest.",
                hint="Restore another checkpoint of the thread; this one is damaged.",
            )
        self.cache.note_verified(row.id, (row, agent))

    def header(self, located: Located) -> Header:
        """Everything but the state."""
        return header_of(located, self.codec)

    async def tip(self, thread: str, agent: str, branch: str | None = None) -> Located | None:
        """The head of a lane's current branch or of the one named, or what it reads as."""
        return self.tip_of(
            await self.backend.look(Scope(self.tenant, thread, agent, branch)), agent
        )

    def tip_of(self, found: Found, agent: str) -> Located | None:
        """The same, of a lane that was looked at."""
        if found.tip is None or found.branch is None or found.thread is None:
            return None
        thread = found.thread.name
        self.cache.saw((thread, agent), found.tip.id)
        return Located(found.tip, thread, agent, expired=False)


def _check_root(row: CheckpointRow, found: Stored) -> None:
    if found.tree.hash != row.root:
        raise CheckpointIntegrityError(
            f"checkpoint {row.label}: the stored state differs from the one that was saved.",
            hint="Restore another checkpoint of the thread; this one is damaged.",
        )


def _removed(row: CheckpointRow) -> CheckpointNotFoundError:
    return CheckpointNotFoundError(f"checkpoint {row.label} was removed meanwhile.")
