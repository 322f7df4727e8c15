"""The half of the client that moves between lines: fork, rewind, undo, switch."""

from __future__ import annotations

from collections.abc import Iterable

from lastgood import arguments, moving
from lastgood.core import Core
from lastgood.driver import Driver
from lastgood.ids import check_name
from lastgood.model import Move
from lastgood.moving import Edits


class Moving:
    """Methods of `Client` that begin a line or choose one. Nothing that is there is changed."""

    _core: Core
    _driver: Driver

    async def fork(
        self,
        ref: str,
        *,
        branch: str | None = None,
        edits: Edits | None = None,
        remove: Iterable[str] = (),
        switch: bool = False,
    ) -> str:
        """Begin a branch at any checkpoint and return the id of the branch's first checkpoint.

        `edits` is a dict that puts values at paths (`{"plan.goal": "x", "messages[3].text": "y"}`),
        or a function that changes the state or returns another one. `remove` names paths to remove.
        With `switch=True` the agent continues from the fork; otherwise it stays where it is.
        """
        arguments.edits(edits)
        return await moving.fork(
            self._core,
            self._driver,
            ref,
            branch=arguments.name(branch, "branch"),
            edits=edits,
            remove=[remove] if isinstance(remove, str) else remove,
            switch=switch,
        )

    async def rewind(self, session_id: str, to: str | int, *, agent_id: str | None = None) -> Move:
        """Continue from an earlier checkpoint: its state becomes current, as a new checkpoint.

        `to` is a ref (`"run-001@42"`, or `"@42"` or `"@~2"` within this thread) or a seq. The line
        that is left stays as a branch, so `undo` can go back to it. A run that is under way on that
        line is refused at its next save.
        """
        thread, agent = check_name(session_id, "session_id"), arguments.agent(agent_id)
        ref = f"@{to}" if isinstance(to, int) else to
        return await moving.rewind(self._core, self._driver, thread, ref, agent)

    async def undo(self, session_id: str, *, agent_id: str | None = None) -> Move:
        """Undo the last rewind, switch or other change of branch; a second call undoes the undo.

        Raises CheckpointNotFoundError if there was no such change. Plain saves are not undone: for
        that, use `rewind`.
        """
        thread, agent = check_name(session_id, "session_id"), arguments.agent(agent_id)
        found = await self._driver.run(moving.undo(self._core, thread, agent))
        return moving.moved(self._core, found)

    async def switch(self, session_id: str, branch: str, *, agent_id: str | None = None) -> Move:
        """Make an agent continue from another of its branches."""
        thread, agent = check_name(session_id, "session_id"), arguments.agent(agent_id)
        name = check_name(branch, "branch")
        found = await self._driver.run(moving.switch(self._core, thread, name, agent))
        return moving.moved(self._core, found)
