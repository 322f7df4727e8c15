"""Reading the `config` of a call: which thread, whose, in which run. It is never changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lastgood.ids import check_name
from lastgood.messages import as_text

Config = Mapping[str, Any]


class Where(NamedTuple):
    """What a config says, checked."""

    thread: str
    user: str | None
    """Whose threads are to be seen and changed; None: everybody's."""
    owner: str | None
    """Whose the thread is if it begins now."""
    run: str | None
    title: str | None
    """What the thread is to be called if it begins now."""


def read_config(config: Config) -> Where:
    """The thread that a call is about; ValueError if the config names none."""
    user = read_user(config)
    thread = config.get("thread_id")
    if thread is None or thread == "":
        raise ValueError(
            "config has no thread_id. Every thread needs an id of its own: "
            'config={"thread_id": "order-42"}'
        )
    return Where(
        thread=as_text(thread, "thread_id"),
        user=user,
        owner=user,
        run=_optional(config, "run_id"),
        title=_title(config),
    )


def read_user(config: Config) -> str | None:
    """On whose behalf a call is made; None: on everybody's."""
    if not isinstance(config, Mapping):
        raise TypeError(f"config must be a dict with a thread_id, not {type(config).__name__}")
    return _optional(config, "user_id")


def _optional(config: Config, name: str) -> str | None:
    value = config.get(name)
    return None if value is None else as_text(value, name)


def _title(config: Config) -> str | None:
    value = config.get("thread_name")
    return None if value is None else check_name(value, "thread_name")
