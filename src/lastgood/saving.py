"""The half of the client that saves: the five operations, and what belongs to them.

Every method captures what it was given before it suspends; what a caller changes later is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from lastgood import arguments, operations
from lastgood.backend import Listing
from lastgood.checkpoints import Checkpoint
from lastgood.core import About, Core
from lastgood.driver import Driver
from lastgood.errors import CheckpointIntegrityError
from lastgood.ids import LANE_LIMIT, check_name
from lastgood.model import HEAD, INHERIT, Framework, Sentinel, check_step, seconds
from lastgood.refs import Address
from lastgood.rules import OnConflict, Save

SAVE_OPTIONS = frozenset(
    "agent_id execution_state framework session_id parent_id context step_index step_name "
    "ttl_seconds branch on_conflict checkpoint_id metadata".split()
)


class Saving:
    """Methods of `Client` that save, restore, hand over and remove."""

    _core: Core
    _driver: Driver

    async def save(
        self,
        /,
        agent_id: str,
        *,
        execution_state: Mapping[str, Any],
        framework: Framework | str = Framework.CUSTOM,
        session_id: str | None = None,
        parent_id: str | Sentinel | None = HEAD,
        context: Mapping[str, Any] | None = None,
        step_index: int | None = None,
        step_name: str | None = None,
        ttl_seconds: float | timedelta | None = None,
        branch: str | None = None,
        on_conflict: OnConflict = "branch",
        checkpoint_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        **tags: Any,
    ) -> str:
        """Save an agent's whole state in its lane of a thread and return the checkpoint's id.

        Raises SerializationError, with the path, for a value that cannot be stored.

        - `session_id`: the thread. By default a new one is created; the checkpoint names it.
        - `parent_id`: the checkpoint to follow, None for none; by default the head at commit, which
          cannot notice a lost update inside the state (use `run()`). If it is no longer the head,
          the save makes a visible branch; with `on_conflict="reject"` it is a StaleWriterError.
        - `context`: small facts of the case, such as an invoice number. A handoff passes them on.
        - `step_index`, `step_name`: which step this is. The default index is the parent's + 1.
        - `ttl_seconds`: the time after which the checkpoint is gone for every reader.
        - `branch`: the branch to save on, which may be a new one; by default the current one.
        - `checkpoint_id`: a UUID of your choice. A save repeated under it is stored once.
        - `metadata` and any other keyword: what `log()` and `threads()` can filter by.
        """
        thread, agent = arguments.session(session_id), check_name(agent_id, "agent_id")
        parent = arguments.parent(parent_id, thread)
        about = About(
            agent=agent,
            id=arguments.chosen_id(checkpoint_id),
            framework=arguments.framework(framework),
            step=check_step(step_index),
            step_name=arguments.name(step_name, "step_name"),
            ttl=seconds(ttl_seconds),
            context=context,
            metadata=arguments.merged(metadata, tags, SAVE_OPTIONS),
        )
        arguments.conflict_policy(on_conflict)
        base = parent if isinstance(parent, bytes) else b""
        captured = self._core.capture(execution_state, thread, agent, base)
        intent = Save(
            tenant=self._core.tenant,
            thread=thread,
            draft=self._core.draft(captured, about),
            branch=arguments.name(branch, "branch"),
            parent=HEAD if isinstance(parent, Address) else parent,
            on_conflict=on_conflict,
            owner=self._core.options.user,
        )
        named = parent if isinstance(parent, Address) else None
        return await self._driver.run(operations.save(self._core, intent, named))

    async def restore(self, ref: str, verify: bool = True) -> Checkpoint:
        """Return a checkpoint with its state, which equals what was saved, type for type.

        `verify=False` skips the check that the fields match the digest; pages are checked anyway.
        Raises CheckpointNotFoundError, CheckpointExpiredError or CheckpointIntegrityError.
        """
        found = await self._driver.run(operations.restore(self._core, ref, verify=verify))
        return self._core.built(found)

    async def handoff(
        self,
        ref: str,
        target_agent_id: str,
        schema: str | None = None,
        *,
        note: str | None = None,
        ttl_seconds: float | timedelta | Sentinel | None = INHERIT,
    ) -> str:
        """Give a state to another agent, as a new checkpoint at the head of that agent's lane.

        Returns the id of the new checkpoint. Its parent is the source checkpoint, so the chain is
        kept, and it shows in the timelines of both agents. It inherits what is left of the source's
        time to live, unless `ttl_seconds` says otherwise. `schema` names the shape of the state for
        the agent that takes it (kept as `handoff_schema`); `note` says why the state is handed over
        (kept as the metadata `handoff_note`).
        """
        target = check_name(target_agent_id, "target_agent_id")
        arguments.name(schema, "schema")
        arguments.text(note, "note")
        ttl = ttl_seconds if isinstance(ttl_seconds, Sentinel) else seconds(ttl_seconds)
        return await operations.handoff(
            self._core, self._driver, ref, target, schema=schema, note=note, ttl=ttl
        )

    async def timeline(
        self, agent_id: str, session_id: str, limit: int = 50, *, shared: bool = False
    ) -> list[Checkpoint]:
        """Return an agent's checkpoints with their states, newest first.

        With `shared=True`, a large part that did not change from state to state is the same object
        in all of them, so many states take the time and memory of one. Read such states, but do not
        change them.
        """
        listing = Listing(
            thread=check_name(session_id, "session_id"),
            agent=check_name(agent_id, "agent_id", LANE_LIMIT),
            limit=arguments.limit(limit),
        )
        found = await self._driver.run(operations.timeline(self._core, listing))
        return self._core.built_line(found, shared=shared)

    async def expire(self, ref: str) -> bool:
        """Remove a checkpoint now; return False if it is not there.

        The checkpoints before and after it stay.
        """
        return await self._driver.run(operations.expire(self._core, ref))

    async def put(self, checkpoint: Checkpoint) -> str:
        """Store a checkpoint made by `CheckpointBuilder` and return its id.

        Storing the same one again changes nothing.
        """
        arguments.built(checkpoint)
        if not checkpoint.verify_integrity():
            raise CheckpointIntegrityError(
                f"checkpoint {checkpoint.checkpoint_id}: its fields do not give its checksum.",
                hint="Build it anew; a checkpoint is not changed after build().",
            )
        intent = self._core.put_intent(checkpoint)
        return await self._driver.run(operations.save(self._core, intent))

    async def delete(self, session_id: str) -> bool:
        """Delete a thread and everything in it; return False if it is not there.

        A writer that still holds a part of the thread gets ThreadDeletedError. A new root save or a
        new run begins the thread anew, under the same id.
        """
        thread = check_name(session_id, "session_id")
        return await self._driver.run(operations.delete(self._core, thread))
