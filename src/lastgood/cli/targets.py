"""What people type for a thread or a checkpoint, and which one they mean.

The command line takes more than the client: a bare thread name means its head, and an id may be
cut to its first digits. A name may be typed as it is, or as it stands in an address, with `%40` for
an `@`. A name that is not there is answered with the nearest one that is.
"""

from __future__ import annotations

import difflib
import re
import shlex

from lastgood import (
    BlockingClient,
    CheckpointIntegrityError,
    CheckpointNotFoundError,
    Header,
)
from lastgood.cli.command import ABSENT, USAGE, Refusal
from lastgood.cli.store import chosen
from lastgood.ids import read_id
from lastgood.refs import Address, parse, quote, unquote

_PREFIX = re.compile(r"[0-9a-f][0-9a-f-]{5,35}", re.IGNORECASE)
NONE_YET = "no threads yet of this tenant (--tenant NAME looks at another's)"
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
    found = _known(client, name)
    if found is None:
        raise _no_thread(client, name, _inside(client, name))
    return found


def _inside(client: BlockingClient, text: str) -> str:
    """What stands there in the place of a thread, if it is something that a thread has."""
    try:
        parsed = parse(text if "@" in text else f"{text}@")
    except ValueError:
        return ""
    if not isinstance(parsed, Address) or not is_thread(client, parsed.thread):
        return ""
    if "@" in text or parsed.agent is None:
        return f"It would be a checkpoint; the thread is {parsed.thread!r}."
    option = f"({shlex.join(chosen('--agent', parsed.agent))}, where a command takes one)"
    return f"It would be an agent {option}; the thread is {parsed.thread!r}."


def _known(client: BlockingClient, text: str) -> str | None:
    """The thread of a name that was typed as it is, or as it stands in an address."""
    spellings = dict.fromkeys((text, unquote(text)))
    return next((name for name in spellings if is_thread(client, name)), None)


def _no_thread(client: BlockingClient, name: str, hint: str = "") -> Refusal:
    names = [info.thread_id for info in client.threads(limit=_SEARCHED)]
    near = difflib.get_close_matches(name, names, 1)
    others = "`lastgood threads` lists what is there." if names else f"It holds {NONE_YET}."
    return Refusal(
        f"no thread {name!r} in {client.url}.",
        hint=hint or (f"Did you mean {near[0]!r}?" if near else others),
        exit_code=ABSENT,
    )


def check_lane(
    client: BlockingClient, thread: str, agent: str | None, branch: str | None = None
) -> None:
    """Refusal, with what there is, for an agent or a branch that a thread does not have."""
    if agent is None and branch is None:
        return
    try:
        there = client.branches(thread)
    except CheckpointIntegrityError:
        return  # what is damaged is for the command to tell
    _one_of(thread, "agent", agent, {each.agent_id for each in there})
    lane = {each.name for each in there if agent in (None, each.agent_id)}
    _one_of(thread, "branch", branch, lane)


def _one_of(thread: str, what: str, name: str | None, names: set[str]) -> None:
    if name is None or name in names:
        return
    near = difflib.get_close_matches(name, names, 1)
    more = ", ..." if len(names) > _SHOWN else ""
    listed = f"It has {', '.join(sorted(names)[:_SHOWN])}{more}." if names else "It has none yet."
    raise Refusal(
        f"{thread} has no {what} {name!r}.",
        hint=f"Did you mean {near[0]!r}?" if near else listed,
        exit_code=ABSENT,
    )


def lane(client: BlockingClient, thread: str, agent: str) -> list[str]:
    """The words that name an agent, where a thread has several."""
    several = len({branch.agent_id for branch in client.branches(thread)}) > 1
    return chosen("--agent", agent) if several else []


def newest_thread(client: BlockingClient) -> str:
    """The thread that was touched last.

    The order of a list is exact within a page alone: a page of one may hold any that was touched in
    the last minute.
    """
    found = client.threads(limit=_PAGE)
    if not found:
        raise Refusal(
            f"{client.url} holds {NONE_YET}.",
            hint='Open one: client.run("my-first-thread", initial={}).',
            exit_code=ABSENT,
        )
    return found[0].thread_id


def ref(client: BlockingClient, text: str | None) -> str:
    """A ref of the client for what was typed; nothing typed means the newest thread's head."""
    if text is None:
        return f"{quote(newest_thread(client))}@"
    if "@" in text:
        return _address(client, text)
    if read_id(text) is not None and not is_thread(client, text):
        return text  # a thread may have an id for a name: one that was given none has
    if (found := _head(client, text)) is not None:
        return found
    if _PREFIX.fullmatch(text) and (found := _by_prefix(client, text)):
        return found
    raise _no_thread(client, text)


def _address(client: BlockingClient, text: str) -> str:
    """An address as it is, unless only a thread has that for a name, such as `ann@x.com`."""
    try:
        parsed = parse(text)
    except ValueError:
        # The client says what is wrong with what is none.
        return _head(client, text) or _as_typed(client, text) or text
    if not isinstance(parsed, Address) or is_thread(client, parsed.thread):
        return text
    found = _head(client, text) or _as_typed(client, text)
    if found is None:
        raise _no_thread(client, parsed.thread)
    return found


def _as_typed(client: BlockingClient, text: str) -> str | None:
    """The address that `ann/42@3` is short for, where a thread has `ann/42` for a name."""
    name, _, selector = text.rpartition("@")
    return f"{quote(name)}@{selector}" if name and is_thread(client, name) else None


def _head(client: BlockingClient, text: str) -> str | None:
    """The head of a thread, or of `thread/agent`, that was typed without a selector."""
    if (name := _known(client, text)) is not None:
        return f"{quote(name)}@"
    place, _, agent = text.partition("/")
    if place and agent and (name := _known(client, place)) is not None:
        return f"{quote(name)}/{quote(unquote(agent))}@"
    return None


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
