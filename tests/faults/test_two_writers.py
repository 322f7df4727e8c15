"""Many writers, one head: exactly one wins, or all are kept as visible branches."""

import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stores import Stores, is_plain

from lastgood import BlockingClient, StaleWriterError

WRITERS = 8


def test_of_eight_processes_on_one_head_exactly_one_wins(
    base: str, driver: Callable[..., Any], times: Callable[[int], int]
) -> None:
    rounds = times(200 if is_plain(base) else 40)
    report = driver("race_driver", base=base, rounds=rounds, policy="reject")
    line = []
    for head, told in report["outcomes"]:
        winners = [words for words in told if words[0] == "WON"]
        losers = [words for words in told if words[0] == "STALE"]
        assert (len(winners), len(losers)) == (1, WRITERS - 1), told
        assert {(words[2], words[3]) for words in losers} == {(head, winners[0][2])}
        line.append(winners[0][2])
    assert [id for id, *_ in report["log"]][:-1] == line[::-1], "every winner is there, in order"
    assert all(parent == wanted for _, parent, _, wanted in report["log"]), "no update was lost"
    assert {branch for _, _, branch, _ in report["log"]} == {"main"}


def test_of_eight_processes_on_one_head_all_are_kept_as_branches(
    base: str, driver: Callable[..., Any], times: Callable[[int], int]
) -> None:
    rounds = times(200 if is_plain(base) else 40)
    report = driver("race_driver", base=base, rounds=rounds, policy="branch")
    kept = {id: (parent, branch) for id, parent, branch, _ in report["log"]}
    assert len(kept) == rounds * WRITERS + 1
    for head, told in report["outcomes"]:
        ids = [words[2] for words in told if words[0] == "WON"]
        assert len(ids) == WRITERS, told
        assert {kept[id][0] for id in ids} == {head}
        branches = [kept[id][1] for id in ids]
        assert len(set(branches)) == WRITERS, "each on a line of its own"
        assert branches.count("main") == 1


def test_of_eight_threads_in_one_run_exactly_one_wins(
    base: str, times: Callable[[int], int]
) -> None:
    """Each enters the same open run, and saves at the same moment as the others."""
    with Stores(base) as stores:
        race_in_threads(stores.new("store"), times(25))


def race_in_threads(url: str, rounds: int) -> None:
    client = BlockingClient.open(url)
    client.save("agent", session_id="t", execution_state={"count": 0})
    barrier = threading.Barrier(WRITERS)
    outcomes: list[str] = []

    def work() -> None:
        for _ in range(rounds):
            with client.run("t") as run:
                barrier.wait()
                run.state["count"] += 1
                try:
                    run.save()
                    outcomes.append("won")
                except StaleWriterError:
                    outcomes.append("stale")
                barrier.wait()

    threads = [threading.Thread(target=work) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    latest = client.latest(agent_id="agent", session_id="t")
    assert latest is not None
    assert len(outcomes) == rounds * WRITERS
    assert outcomes.count("won") == rounds == latest.state["count"], "no update was lost"
    client.close()


def test_a_save_waits_while_another_connection_holds_the_lock(place: Path) -> None:
    path = place / "store.db"
    client = BlockingClient.sqlite(path)
    client.save("solo", session_id="t", execution_state={"n": 1})
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(6.0, lambda: holder.execute("COMMIT"))
    timer.start()
    began = time.monotonic()
    assert client.latest(agent_id="solo", session_id="t").state == {"n": 1}, "readers do not wait"
    id = client.save("solo", session_id="t", execution_state={"n": 2})
    waited = time.monotonic() - began
    timer.join()
    holder.close()
    assert waited > 5, "it waited for the lock"
    assert client.restore(id).state == {"n": 2}
    client.close()
