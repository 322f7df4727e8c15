"""The agent of the demo: it reads a contract page by page, with a model that is not there.

Runs in a process of its own, tells on its standard output what it begins and what it has saved,
and does not know whether it was ever killed. Text and answers follow from the page number, so
that anybody can tell what its state has to be.
"""

from __future__ import annotations

import random
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any

from lastgood import BlockingClient

THREAD, AGENT = "contract-review", "reviewer"
PAGES = 40
THINKING = 0.1
"""Seconds that the model takes for one answer."""
_PARAGRAPHS, _WORDS = 12, 110
_VOCABULARY = (
    "agreement party shall notice term liability delivery payment schedule service warranty "
    "invoice breach remedy confidential period written consent law claim damages supplier "
    "customer of the to in and any under this upon within except unless"
).split()

State = dict[str, Any]
Model = Callable[[int, str], str]


def read_page(number: int) -> str:
    """The tool: one page of the contract, the same whenever it is read."""
    dice = random.Random(number)
    paragraphs = (" ".join(dice.choices(_VOCABULARY, k=_WORDS)) for _ in range(_PARAGRAPHS))
    return "\n\n".join(paragraphs)


def summary(number: int, text: str) -> str:
    """What the model says of a page."""
    risky = text.count("liability") + text.count("damages")
    return f"Page {number}: {len(text.split())} words, {risky} about liability."


def beginning() -> State:
    """The state before the first step."""
    return {"pages_read": 0, "messages": [{"role": "user", "content": "Review the contract."}]}


def step(state: State, page: int, model: Model = summary) -> None:
    """One step. Whoever is killed in its middle leaves a state behind that is half done."""
    text = read_page(page)
    state["messages"].append({"role": "tool", "name": "read_page", "content": text})
    state["messages"].append({"role": "assistant", "content": model(page, text)})
    state["pages_read"] = page


def state_after(count: int) -> State:
    """The state that an agent has after so many steps if nothing ever happens to it."""
    state = beginning()
    for page in range(1, count + 1):
        step(state, page)
    return state


def slow_model(hangs_at: int) -> Model:
    """A model that takes its time, and for one page never answers."""

    def answer(page: int, text: str) -> str:
        if page == hangs_at:
            sys.stdin.read()  # ends only with the process that started us
            sys.exit("the demo is over")
        time.sleep(THINKING)
        return summary(page, text)

    return answer


def tell(*words: object) -> None:
    """Report to whoever started us, at once."""
    print(*words, flush=True)


def work(options: Namespace) -> None:
    """Open the thread and go on from its last good step. Nothing here is about crashes."""
    with (
        BlockingClient.sqlite(options.file) as client,
        client.run(THREAD, agent_id=AGENT, initial=beginning()) as run,
    ):
        tell("entered", run.run_id, run.attempt)
        model = slow_model(options.hangs_at)
        for page in range(run.state["pages_read"] + 1, PAGES + 1):
            tell("began", page)
            step(run.state, page, model)
            run.save(step_name=f"page {page}")
            tell("saved", page)
        run.finish(f"{PAGES} pages reviewed")


def main() -> None:
    """The process."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--hangs-at", type=int, default=0, help="the page without an answer")
    work(parser.parse_args())
