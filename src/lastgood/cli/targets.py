"""What people type for a thread or a checkpoint, and which one they mean.

The command line takes more than the client: a bare thread name means its head, and an id may be
cut to its first digits. A name that is not there is answered with the nearest one that is.
"""

from __future__ import annotations

import difflib
import re

from lastgood import (
    BlockingClient,
    CheckpointIntegrityError,
    CheckpointNotFoundError,
    Header,
)
from lastgood.cli.command import ABSENT, USAGE, Refusal
from lastgood.ids import read_id
from lastgood.refs import quote

_PREFIX = re.compile(r"[0-9a-f][0-9a-f-]{5,35}", re.IGNORECASE)
_PAGE = 500
_SHOWN = 5
_SEARCHED = 2000
"""How many thread names are compared for a suggestion."""


def is_thread(client: BlockingClient, name: str) -> bool:
    """Whether there is a thread of that name, damaged or not."""
    try:
        client.branches(name)
    except CheckpointNotFoundError:
        return False
    except CheckpointIntegrityError:
        return True
    return True


def thread(client: BlockingClient, name: str) -> str:
    """A thread that is there; Refusal with the nearest name if it is not."""
    if is_thread(client, name):
        return name
    names = [info.thread_id for info in client.threads(limit=_SEARCHED)]
    near = difflib.get_close_matches(name, names, 1)
    others = "`lastgood threads` lists what is there." if names else "It holds no threads yet."
    raise Refusal(
        f"no thread {name!r} in {client.url}.",
        hint=f"Did you mean {near[0]!r}?" if near else others,
        exit_code=ABSENT,
    )


def lane(client: BlockingClient, thread: str, agent: str) -> list[str]:
    """The words that name an agent, where a thread has several."""
    several = len({branch.agent_id for branch in client.branches(thread)}) > 1
    return ["--agent", agent] if several else []


def newest_thread(client: BlockingClient) -> str:
    """The thread that was touched last."""
    found = client.threads(limit=1)
    if not found:
        raise Refusal(
            f"{client.url} holds no threads yet.",
            hint='Open one: client.run("my-first-thread", initial={}).',
            exit_code=ABSENT,
        )
    return found[0].thread_id


def ref(client: BlockingClient, text: str | None) -> str:
    """A ref of the client for what was typed; nothing typed means the newest thread's head."""
    if text is None:
        return f"{quote(newest_thread(client))}@"
    if "@" in text or (read_id(text) is not None and not is_thread(client, text)):
        return text  # a thread may have an id for a name: one that was given none has
    if is_thread(client, text):
        return f"{quote(text)}@"
    name, slash, agent = text.partition("/")
    if slash and agent and is_thread(client, name):
        return f"{quote(name)}/{quote(agent)}@"
    if _PREFIX.fullmatch(text) and (found := _by_prefix(client, text)):
        return found
    return f"{quote(thread(client, text))}@"


def _by_prefix(client: BlockingClient, prefix: str) -> str | None:
    digits = prefix.replace("-", "").lower()
    found: list[Header] = []
    after = None
    while True:
        page = client.threads(sort="name", limit=_PAGE, after=after)
        for info in page:
            found += _with_prefix(client, info.thread_id, digits)
        after = page.next
        if after is None:
            break
    if len(found) > 1:
        shown = ", ".join(f"{h.checkpoint_id} ({h.name})" for h in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise Refusal(
            f"{prefix!r} begins {len(found)} checkpoint ids: {shown}{more}.",
            hint="Type more digits, or thread@SEQ.",
            exit_code=USAGE,
        )
    return found[0].checkpoint_id if found else None


def _with_prefix(client: BlockingClient, thread: str, digits: str) -> list[Header]:
    found: list[Header] = []
    after = None
    while True:
        page = client.log(thread, limit=_PAGE, after=after)
        found += [h for h in page if h.checkpoint_id.replace("-", "").startswith(digits)]
        after = page.next
        if after is None:
            return found
