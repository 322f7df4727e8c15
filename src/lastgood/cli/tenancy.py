"""Whose threads a command takes: those of one tenant, or all tenants in turn.

Shared by the commands that people take for being about a whole store. The one rule: that a tenant
is left out, or is not there at all, is never silent.
"""

from __future__ import annotations

import difflib
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lastgood import BlockingClient, LastgoodError
from lastgood.cli import printing
from lastgood.cli.cleaning import clean
from lastgood.cli.command import ABSENT, USAGE, Refusal
from lastgood.cli.terminal import Terminal
from lastgood.model import DEFAULT_TENANT


class Tenant(NamedTuple):
    """A tenant, and a client for its threads."""

    name: str
    client: BlockingClient


def option(parser: ArgumentParser) -> None:
    """All tenants instead of one."""
    parser.add_argument(
        "--all-tenants", action="store_true", help="take each tenant in turn, instead of one"
    )


def check(options: Namespace, thread: object) -> None:
    """Refuse what is about one tenant together with all of them."""
    if not options.all_tenants:
        return
    if given(options) is not None:
        raise Refusal("--tenant names one and --all-tenants takes all: give one.", exit_code=USAGE)
    if thread:
        raise Refusal(
            "with --all-tenants a thread cannot be named: each may have one of that name.",
            hint="Say whose it is: --tenant NAME.",
            exit_code=USAGE,
        )


def given(options: Namespace) -> str | None:
    """The tenant that was named, if one was."""
    named: str | None = getattr(options, "tenant", None)
    return named


def asked(client: BlockingClient, options: Namespace, thread: object = None) -> list[Tenant]:
    """Those that a command takes, at least one; Refusal for one that has nothing there."""
    if options.all_tenants:
        return each(client, client.tenants())
    name, names = given(options), _names(client)
    if name is not None:
        _check_there(client, name, names)
        return [Tenant(name, client)]
    others = len({*names} - {DEFAULT_TENANT})
    if others and not thread:
        printing.note(_left_out(client, others))
    return [Tenant(DEFAULT_TENANT, client)]


def each(client: BlockingClient, names: Sequence[str]) -> list[Tenant]:
    """A client for each, over the same connections; in a store without any, for the usual one."""
    backend = client._core.backend
    return [
        Tenant(name, BlockingClient.on(backend, tenant=name)) for name in names or [DEFAULT_TENANT]
    ]


def options_of(options: Namespace, tenant: Tenant) -> Namespace:
    """The options for a command that is about one of all."""
    return Namespace(**{**vars(options), "tenant": tenant.name}) if options.all_tenants else options


def heading(terminal: Terminal, tenant: Tenant, tenants: Sequence[Tenant]) -> None:
    """Whose the lines are that follow, where it is not clear."""
    if len(tenants) > 1:
        terminal.line(clean(f"tenant {tenant.name}"), "bold")


def document(options: Namespace, found: Sequence[tuple[Tenant, Mapping[str, object]]]) -> None:
    """What was found as JSON: of all a list, of one that alone."""
    if options.all_tenants:
        printing.document([{"tenant": tenant.name, **fields} for tenant, fields in found])
    else:
        printing.document(found[0][1])


def _names(client: BlockingClient) -> list[str]:
    """Those that are there; of a store that is damaged the command itself tells more."""
    try:
        return client.tenants()
    except LastgoodError:
        return []


def _check_there(client: BlockingClient, name: str, names: Sequence[str]) -> None:
    if name in names or not names:
        return
    near = [repr(each) for each in difflib.get_close_matches(name, names)]
    raise Refusal(
        f"nothing of tenant {name!r} is in {client.url}.",
        hint=f"Did you mean {' or '.join(near)}?" if near else "`lastgood tenants` lists all.",
        exit_code=ABSENT,
    )


def _left_out(client: BlockingClient, count: int) -> str:
    which, them = ("other tenant is", "it") if count == 1 else ("other tenants are", "them")
    return f"{count:,} {which} in {client.url}; --all-tenants takes {them} too."
