"""The manager beside what the contract says of it: where it opens, what a save costs, keys."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest

from lastgood import (
    BlockingClient,
    Checkpointable,
    CheckpointManager,
    Client,
    IncompatibleCheckpointError,
    WrongKeyError,
    checkpoint,
)
from lastgood.objects.keys import key_path

POSIX = sys.platform != "win32"


class Agent(Checkpointable):
    def __init__(self) -> None:
        self.memory: list[Any] = []
        self.count = 0


def repr_of(options: dict[str, Any]) -> str:
    return " ".join(map(str, options.values())).partition(" object at")[0] or "nothing"


class TestOpening:
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"backend": "memory"},
            {"backend": "memory:"},
            {"backend": "sqlite"},
            {"backend": "sqlite", "path": "other.db"},
            {"backend": "sqlite:///third.db"},
            {"backend": Client.memory()},
            {"backend": BlockingClient.memory()},
        ],
        ids=repr_of,
    )
    def test_every_way(
        self, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with CheckpointManager(**options) as manager:
            manager.save("k", Agent())
            assert manager.list_keys() == ["k"]
            assert manager.client.url in repr(manager)

    def test_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        agent = Agent()
        agent.memory = [("a", 1), {2}]
        for options in ({}, {"path": "elsewhere"}, {"path": Path("third")}):
            CheckpointManager("file", **options).save("k", agent)
        for name in ("checkpoints", "elsewhere", "third"):
            assert CheckpointManager("file", name).load("k", Agent()).memory == agent.memory
            texts = [path.read_text() for path in Path(name).rglob("*.json")]
            assert any('"memory"' in text and '"tuple"' in text for text in texts)
            assert all(json.loads(text) for text in texts)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"backend": "files"}, "is not one of"),
            ({"backend": 7}, "is not one of"),
            ({"backend": "memory:", "path": "x"}, "path= goes with"),
            ({"path": "x.db"}, r"path='x.db' needs a backend: .*sqlite.*memory alone"),
            ({"fmt": "yaml"}, "fmt must be"),
            ({"key": b"k" * 16}, r'goes with fmt="pickle"'),
            ({"fmt": "pickle", "key": b"short"}, "at least 16"),
        ],
    )
    def test_mistakes(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            CheckpointManager(**options)

    def test_what_is_no_checkpointable(self) -> None:
        with pytest.raises(TypeError, match="the key first, then the object"):
            CheckpointManager().save("k", {})  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="needs an object"):
            CheckpointManager().rollback_context("k")

    def test_a_client_that_was_passed_in_stays_open(self) -> None:
        client = BlockingClient.memory()
        with CheckpointManager(client) as manager:
            manager.save("k", Agent())
        assert [info.thread_id for info in client.threads()] == ["k"]

    def test_a_run_in_the_same_thread_is_not_disturbed(self) -> None:
        client = BlockingClient.memory()
        manager = CheckpointManager(client)
        with client.run("k", initial={"n": 0}) as run:
            manager.save("k", Agent())
            run.state["n"] += 1
            run.save()
            assert manager.load("k", Agent()).count == 0
        assert len(manager.history("k")) == 1

    def test_an_empty_id_names_nothing(self) -> None:
        manager = CheckpointManager()
        manager.save("k", Agent())
        for ask in (
            lambda: manager.load("k", Agent(), checkpoint_id=""),
            lambda: manager.diff("k", checkpoint_id_a=""),
            lambda: manager.diff("k", agent=Agent(), checkpoint_id_a=""),
        ):
            with pytest.raises(ValueError, match="checkpoint_id is empty"):
                ask()

    @pytest.mark.parametrize(
        "state", [[1], {"__shared__": 5}, {"__agents__": 5}, {"__pickle__": 5}], ids=repr
    )
    @pytest.mark.parametrize("options", [{}, {"fmt": "pickle", "key": b"k" * 16}], ids=repr_of)
    def test_what_others_have_saved_in_the_lane_is_told(
        self, state: Any, options: dict[str, Any]
    ) -> None:
        client = BlockingClient.memory()
        with client.run("k", agent_id="object", initial=state):
            pass
        manager = CheckpointManager(client, **options)
        for ask in (
            lambda: manager.load("k", Agent()),
            lambda: manager.diff("k", agent=Agent()),
        ):
            with pytest.raises(IncompatibleCheckpointError, match="no CheckpointManager has saved"):
                ask()


class TestCosts:
    def test_a_save_costs_what_changed(self, tmp_path: Path) -> None:
        manager = CheckpointManager("sqlite", tmp_path / "a.db")
        agent = Agent()
        agent.memory = [{"role": "user", "content": f"message {n} " * 20} for n in range(1000)]
        child = Agent()
        child.memory = [["x" * 1000] for _ in range(1000)]
        agent.child = child
        manager.save("k", agent)
        [before] = manager.client.threads()
        for number in range(10):
            agent.count = number
            child.count = number
            manager.save("k", agent)
        [after] = manager.client.threads()
        assert before.size > 1_000_000
        assert after.size - before.size < 10 * 2_000


def wrapped(function: Any) -> Any:
    """As a decorator for logs may do it: a plain function round any other."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


@contextmanager
def eager_switching() -> Iterator[None]:
    """Threads take turns as often as the interpreter can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


class TestDecorating:
    @pytest.mark.parametrize("every", [0, -1, 1.5, True, None])
    def test_every_is_a_number_of_calls(self, every: Any) -> None:
        with pytest.raises(ValueError, match="every="):
            checkpoint(CheckpointManager(), key="k", every=every)

    def test_generators_are_refused(self) -> None:
        def generator(agent: Agent) -> Any:
            yield agent

        with pytest.raises(TypeError, match="is a generator"):
            checkpoint(CheckpointManager(), key="k")(generator)

    def test_a_generator_below_a_wrapper_is_refused_when_it_is_called(self) -> None:
        manager = CheckpointManager()

        @checkpoint(manager, key="k")
        @wrapped
        def generator(agent: Agent) -> Any:
            yield agent

        @checkpoint(manager, key="k")
        @wrapped
        async def generates(agent: Agent) -> Any:
            yield agent

        for call in (generator, generates):
            with pytest.raises(TypeError, match="is a generator"):
                call(Agent())
        assert manager.list_keys() == []

    def test_a_coroutine_below_a_wrapper_is_saved_when_it_is_done(self) -> None:
        manager, agent = CheckpointManager(), Agent()

        @checkpoint(manager, key="k", every=2, on_exception=True)
        @wrapped
        async def step(agent: Agent, *, fail: bool = False) -> int:
            await asyncio.sleep(0)
            agent.count += 1
            if fail:
                raise ConnectionError
            return agent.count

        assert [asyncio.run(step(agent)) for _ in range(4)] == [1, 2, 3, 4]
        assert [manager.load("k", Agent(), nth=nth).count for nth in range(2)] == [4, 2]
        with pytest.raises(ConnectionError):
            asyncio.run(step(agent, fail=True))
        assert manager.load("k", Agent()).count == 5

    @pytest.mark.parametrize(
        ("wrong", "told"),
        [
            (classmethod(lambda cls, agent: agent), "below @classmethod"),
            (staticmethod(lambda agent: agent), "below @staticmethod"),
            (partial(print, "x"), "not for a partial"),
            (None, "not for a NoneType"),
            (Agent, "put on the class Agent. Put it on one of its methods"),
        ],
        ids=["a class method", "a static method", "a partial", "nothing", "a class"],
    )
    def test_what_is_no_function_is_refused(self, wrong: Any, told: str) -> None:
        with pytest.raises(TypeError, match=told):
            checkpoint(CheckpointManager(), key="k")(wrong)

    def test_an_exception_goes_on_if_the_object_cannot_be_saved(self) -> None:
        agent: Any = Agent()
        agent.tool = lambda: 0

        @checkpoint(CheckpointManager(), key="k", on_exception=True)
        def step(agent: Agent) -> None:
            raise ConnectionError("the model is gone")

        @checkpoint(CheckpointManager(), key="k", on_exception=True)
        async def astep(agent: Agent) -> None:
            raise ConnectionError("the model is gone")

        for call in (lambda: step(agent), lambda: asyncio.run(astep(agent))):
            with pytest.raises(ConnectionError, match="the model is gone") as error:
                call()
            [note] = error.value.__notes__
            assert "@checkpoint could not save it under 'k': SerializationError" in note
            assert "state.tool" in note

    def test_a_call_without_an_object(self) -> None:
        @checkpoint(CheckpointManager(), key="k")
        def work(number: int) -> int:
            return number

        with pytest.raises(TypeError, match="without a Checkpointable"):
            work(1)

    def test_methods_of_the_object_and_of_others(self) -> None:
        manager = CheckpointManager()

        class Counter(Agent):
            @checkpoint(manager, key="own")
            def step(self) -> None:
                """Count."""
                self.count += 1

        class Runner:
            @checkpoint(manager, key=lambda self, agent: self.name)
            def step(self, agent: Agent) -> None:
                agent.count += 1

            name = "runner"

        counter = Counter()
        counter.step()
        Runner().step(counter)
        assert manager.load("own", Counter()).count == 1
        assert manager.load("runner", Counter()).count == 2
        assert Counter.step.__doc__ == "Count."

    def test_threads_lose_no_call(self) -> None:
        manager = CheckpointManager()
        lock = threading.Lock()

        @checkpoint(manager, key="k", every=10)
        def step(agent: Agent) -> None:
            with lock:
                agent.count += 1

        agent = Agent()
        threads = [
            threading.Thread(target=lambda: [step(agent) for _ in range(50)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(manager.history("k")) == 20

    def test_threads_that_are_the_first_at_once_lose_no_call(self) -> None:
        manager, at_once = CheckpointManager(), threading.Barrier(4)
        keys = [f"k{number}" for number in range(300)]

        @checkpoint(manager, key=lambda _agent, key: key, every=4)
        def step(_agent: Agent, _key: str) -> None:
            at_once.wait()

        def call() -> None:
            for key in keys:
                step(Agent(), key)

        with eager_switching(), ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(call) for _ in range(4)]:
                done.result()
        assert manager.list_keys() == sorted(keys)


PROGRAM = """
    import sys
    from lastgood import Checkpointable, CheckpointManager

    class Odd:
        def __eq__(self, other):
            return type(other) is Odd

    class Agent(Checkpointable):
        def __init__(self):
            self.odd = None

    agent, manager = Agent(), CheckpointManager("sqlite", "p.db", fmt="pickle")
    if sys.argv[1] == "save":
        agent.odd = Odd()
        manager.save("k", agent)
    else:
        print(manager.load("k", agent).odd == Odd())
"""


def run(directory: Path, home: str, word: str) -> subprocess.CompletedProcess[str]:
    (directory / "program.py").write_text(textwrap.dedent(PROGRAM))
    (directory / home).mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "program.py", word],
        cwd=directory,
        env={"HOME": str(directory / home), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


class Gone:
    """A class that is not found any more when its pickle is read."""


def test_a_pickle_of_a_class_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = CheckpointManager(fmt="pickle", key=b"k" * 16)
    agent, target = Agent(), Agent()
    agent.memory = [Gone()]
    manager.save("k", agent)
    monkeypatch.delitem(globals(), "Gone")
    with pytest.raises(IncompatibleCheckpointError, match=r"cannot be read here: .*Gone"):
        manager.load("k", target)
    assert target.memory == []


@pytest.mark.skipif(not POSIX, reason="HOME is the home directory on POSIX")
class TestTheKeyOfAUser:
    @pytest.fixture(autouse=True)
    def home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path / "home"))

    def test_it_is_made_once_and_nobody_else_can_read_it(self, tmp_path: Path) -> None:
        manager = CheckpointManager("sqlite", tmp_path / "a.db", fmt="pickle")
        manager.save("k", Agent())
        path = key_path()
        secret = path.read_bytes()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert [each.name for each in path.parent.iterdir()] == ["pickle.key"]
        assert secret not in (tmp_path / "a.db").read_bytes()
        again = CheckpointManager("sqlite", tmp_path / "a.db", fmt="pickle")
        assert again.load("k", Agent()).count == 0
        assert path.read_bytes() == secret
        assert repr(secret)[2:-1] not in repr(vars(again)) + repr(vars(manager))

    def test_it_is_not_made_without_need(self) -> None:
        CheckpointManager(fmt="pickle")
        CheckpointManager().save("k", Agent())
        assert not key_path().exists()

    def test_a_key_that_others_can_read_is_refused(self) -> None:
        CheckpointManager(fmt="pickle").save("k", Agent())
        key_path().chmod(0o640)
        with pytest.raises(WrongKeyError, match="chmod 600"):
            CheckpointManager(fmt="pickle").save("k", Agent())

    def test_what_is_no_key_is_refused(self) -> None:
        CheckpointManager(fmt="pickle").save("k", Agent())
        key_path().write_bytes(b"short")
        with pytest.raises(WrongKeyError, match="is not a key"):
            CheckpointManager(fmt="pickle").save("k", Agent())

    def test_without_a_home_it_is_told_how_to_give_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("HOME", str(tmp_path / "file"))
        with pytest.raises(WrongKeyError, match=r"neither read nor made: .*file.* Pass key="):
            CheckpointManager(fmt="pickle").save("k", Agent())
        CheckpointManager(fmt="pickle", key=b"k" * 16).save("k", Agent())

    def test_many_that_begin_together_have_one_key(self) -> None:
        secrets: list[bytes] = []

        def begin() -> None:
            CheckpointManager(fmt="pickle").save("k", Agent())
            secrets.append(key_path().read_bytes())

        threads = [threading.Thread(target=begin) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(secrets) == 8
        assert len(set(secrets)) == 1

    def test_a_store_from_elsewhere_is_refused(self, tmp_path: Path) -> None:
        assert run(tmp_path, "mine", "save").returncode == 0
        assert run(tmp_path, "mine", "load").stdout == "True\n"
        refused = run(tmp_path, "yours", "load")
        assert refused.returncode == 1
        assert "WrongKeyError" in refused.stderr
        assert str(tmp_path / "yours" / ".local/share/lastgood/pickle.key") in refused.stderr


def test_who_is_overtaken_again_and_again_is_saved_in_the_end() -> None:
    """As one of dozens of threads that save under one key, on a store that is far away."""
    manager = CheckpointManager()

    class Slow(Agent):
        def state_dict(self) -> dict[str, Any]:
            if self.count < 50:
                self.count += 1
                manager.save("k", Agent())
            return {"count": self.count}

    saved = manager.save("k", Slow())
    assert manager.history("k", n=1)[0]["id"] == saved
    assert manager.load("k", Agent(), strict=False).count == 50
