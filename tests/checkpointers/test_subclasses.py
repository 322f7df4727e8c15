"""The blocking methods of checkpointers that somebody derived: from ours, or from the interface."""

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from custom_checkpointer import DictCheckpointer

from lastgood.checkpointers import InMemoryCheckpointer, Message, SqliteCheckpointer

CONFIG = {"thread_id": "t"}


class TestTwinsOfOthers:
    """A custom checkpointer that really awaits something."""

    def test_in_a_script_and_in_threads(self) -> None:
        made = DictCheckpointer()
        made.setup()
        threads = [
            threading.Thread(target=made.put_messages, args=(CONFIG, [Message("user", str(n))]))
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made.get_messages(CONFIG)) == 8

    def test_inside_a_running_loop(self) -> None:
        async def main() -> Any:
            made = DictCheckpointer()
            made.put_state(CONFIG, {"n": 1})
            assert await made.aget_state(CONFIG) == {"n": 1}
            return made.get_state(CONFIG)

        assert asyncio.run(main()) == {"n": 1}

    def test_from_its_own_loop_it_is_an_error_and_not_a_deadlock(self) -> None:
        class Nested(DictCheckpointer):
            async def aget_thread(self, config: Any) -> Any:
                return self.get_state(config)

        with pytest.raises(RuntimeError, match="Await"):
            Nested().get_thread(CONFIG)

    def test_in_a_forked_child(self) -> None:
        made = DictCheckpointer()
        made.put_state(CONFIG, {"n": 1})
        child = os.fork()
        if not child:
            os._exit(0 if made.get_state(CONFIG) == {"n": 1} else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Counting(SqliteCheckpointer[Any]):
    """Keeps something of its own, and calls what it is derived from."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.puts = 0

    async def asetup(self) -> None:
        await super().asetup()
        self.bind_state_type(dict)

    async def aput_state(self, config: Any, state: Any) -> Any:
        self.puts += 1
        return await super().aput_state(config, state)

    async def aclear_state(self, config: Any) -> bool:
        if self.get_state(config) is None:
            return False
        return await super().aclear_state(config)


class TestSubclassesOfOurs:
    def test_keep_what_they_set_in_both_colours(self, tmp_path: Path) -> None:
        made = Counting(tmp_path / "a.db")
        made.setup()
        assert made.state_type is dict
        made.put_state(CONFIG, {"n": 1})
        asyncio.run(made.aput_state(CONFIG, {"n": 2}))
        assert made.puts == 2
        assert made.get_state(CONFIG) == {"n": 2}

    def test_may_call_the_other_colour(self, tmp_path: Path) -> None:
        made = Counting(tmp_path / "a.db")
        assert made.clear_state(CONFIG) is False
        made.put_state(CONFIG, {"n": 1})
        assert asyncio.run(made.aclear_state(CONFIG)) is True
        assert asyncio.run(made.aget_state(CONFIG)) is None

    @pytest.mark.parametrize("seconds", [0, 0.001])
    @pytest.mark.parametrize("inside", [True, False])
    def test_that_await_something_else_are_told_what_to_do(
        self, seconds: float, *, inside: bool
    ) -> None:
        class Asking(InMemoryCheckpointer[Any]):
            async def aput_state(self, config: Any, state: Any) -> Any:
                await asyncio.sleep(seconds)
                return await super().aput_state(config, state)

        async def within_a_loop(call: Callable[[], Any]) -> Any:
            return call()

        made = Asking()

        def put() -> Any:
            return made.put_state(CONFIG, {"n": 1})

        with pytest.raises(RuntimeError, match=r"Await .*Asking\.aput_state .* define put_state"):
            asyncio.run(within_a_loop(put)) if inside else put()
        assert asyncio.run(made.aput_state(CONFIG, {"n": 1})) == {"n": 1}

    def test_errors_of_their_own_stay_as_they_are(self) -> None:
        class Failing(InMemoryCheckpointer[Any]):
            async def aput_state(self, config: Any, state: Any) -> Any:
                raise RuntimeError("no room")

        with pytest.raises(RuntimeError, match=r"^no room$"):
            Failing().put_state(CONFIG, {"n": 1})
