"""Classes that bring their own `state_dict` and `load_state_dict`, wherever they stand."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest

from lastgood import Checkpointable, CheckpointManager


class Agent(Checkpointable):
    def __init__(self, memory: Any = None) -> None:
        self.memory = memory


class Memory(Checkpointable):
    """Has nothing of our methods, and takes nothing but what it gave."""

    def __init__(self, *facts: str) -> None:
        self.facts = list(facts)
        self._conn = "live"

    def state_dict(self) -> dict[str, Any]:
        return {"told": list(self.facts)}

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        assert type(state) is dict
        assert state.keys() == {"told"}
        self.facts = list(state["told"])


class Giving(Checkpointable):
    """Gives its state itself and lets us load it."""

    def __init__(self, *facts: str) -> None:
        self.facts = list(facts)
        self._conn = "live"

    def state_dict(self) -> dict[str, Any]:
        return {"facts": [*self.facts]}


class Taking(Checkpointable):
    """Lets us give its state and takes it itself."""

    def __init__(self, *facts: str) -> None:
        self.facts = list(facts)
        self._conn = "live"

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        assert state.keys() == {"facts", "__version__", "__class__"}
        self.facts = state["facts"]


Way = Callable[[Any], Any]


def through_a_store(agent: Any, target: Any = None) -> Any:
    manager = CheckpointManager()
    manager.save("k", agent)
    return manager.load("k", target or Agent())


def through_its_state(agent: Any) -> Any:
    found = Agent()
    found.load_state_dict(agent.state_dict())
    return found


def through_a_rollback(agent: Any) -> Any:
    manager, before = CheckpointManager(), agent.memory
    with pytest.raises(RuntimeError), manager.rollback_context("k", agent):  # noqa: PT012
        before[0].facts.append("forget this")
        agent.memory = None
        raise RuntimeError
    return agent


def through_a_rollback_of_two(agent: Any) -> Any:
    manager, other = CheckpointManager(), Agent(agent.memory)
    with pytest.raises(RuntimeError), manager.rollback_context("k", other, agent):  # noqa: PT012
        agent.memory = other.memory = None
        raise RuntimeError
    assert other.memory[0] is agent.memory[0]
    return agent


each_class = pytest.mark.parametrize("make", [Memory, Giving, Taking])


@each_class
@pytest.mark.parametrize(
    "way",
    [
        through_a_store,
        through_its_state,
        Agent.clone,
        through_a_rollback,
        through_a_rollback_of_two,
    ],
)
def test_an_inner_object_comes_back_as_an_object(make: Any, way: Way) -> None:
    memory = make("a")
    found = way(Agent([memory, {"same": memory}])).memory
    assert type(found[0]) is make
    assert found[0].facts == ["a"]
    assert vars(found[0]).keys() <= {"facts", "_conn"}
    assert found[1]["same"] is found[0]


@each_class
def test_an_inner_object_that_is_in_its_place_is_loaded_in_place(make: Any) -> None:
    there = make("b")
    found = through_a_store(Agent(make("a")), Agent(there))
    assert found.memory is there
    assert (there.facts, there._conn) == (["a"], "live")


@each_class
def test_a_rollback_gives_the_same_inner_object_back(make: Any) -> None:
    there = make("a")
    found = through_a_rollback(Agent([there]))
    assert found.memory[0] is there
    assert (there.facts, there._conn) == (["a"], "live")


@each_class
def test_a_snapshot_and_a_clone_share_nothing_with_the_object(make: Any) -> None:
    agent = Agent(make("a"))
    state, cloned = agent.state_dict(), agent.clone()
    agent.memory.facts.append("b")
    assert ["a"] in state["memory"].values()
    assert cloned.memory.facts == ["a"]


class Holder(Checkpointable):
    """Gives a state that leads to objects, to itself, and to the same thing twice."""

    def __init__(self, inner: Any = None) -> None:
        self.inner, self.twice = inner, []

    def state_dict(self) -> dict[str, Any]:
        return {"inner": self.inner, "twice": [self.twice, self.twice]}

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        super().load_state_dict(state, strict=strict)


def test_a_state_that_it_gives_may_hold_objects() -> None:
    holder = Holder(Memory("a"))
    holder.twice = [holder.inner]
    found = through_a_store(Agent(holder)).memory
    assert found.inner.facts == ["a"]
    assert found.twice[0] is found.twice[1]
    assert found.twice[0][0] is found.inner


def test_half_of_our_words_are_refused() -> None:
    class Half(Checkpointable):
        def state_dict(self) -> dict[str, Any]:
            return {"a": 1, "__version__": 3}

    with pytest.raises(TypeError, match=r"gave '__version__', and names that begin with two"):
        Agent(Half()).state_dict()


class Given(Checkpointable):
    def __init__(self, given: Any = None) -> None:
        self.given = given

    def state_dict(self) -> Any:
        return self.given

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        self.given = state


@pytest.mark.parametrize("wrap", [lambda agent: agent, Agent], ids=["alone", "inside another"])
class TestWhatItMayGive:
    @pytest.mark.parametrize("word", ["__shared__", "__object__", "__pickle__", "__agents__"])
    def test_words_that_are_stored_are_refused(self, wrap: Any, word: str) -> None:
        with pytest.raises(TypeError, match=f"gave '{word}', and names that begin with two"):
            CheckpointManager().save("k", wrap(Given({word: 1, "b": 2})))

    @pytest.mark.parametrize("given", [None, [("a", 1)], "text"], ids=repr)
    def test_what_is_no_dict_is_refused(self, wrap: Any, given: Any) -> None:
        with pytest.raises(TypeError, match=r"Given.state_dict\(\) returned .* Return a dict"):
            CheckpointManager().save("k", wrap(Given(given)))

    def test_other_words_come_back(self, wrap: Any) -> None:
        given = {"__mine__": 1, "__value__": [2], "b": 3}
        found = through_a_store(wrap(Given(given)), wrap(Given()))
        assert getattr(found, "memory", found).given == given


def test_a_state_that_it_gives_may_lead_back_to_the_object() -> None:
    holder = Holder()
    holder.inner = Agent([holder])
    found = through_a_store(holder, Holder())
    assert found.inner.memory[0] is found
    found = through_a_store(Agent(holder)).memory
    assert found.inner.memory[0] is found


class Child(Checkpointable):
    def __init__(self, number: int = 0) -> None:
        self.number = number
        self._conn: Any = object()


class Checked(Checkpointable):
    """Looks at what it has loaded."""

    def __init__(self) -> None:
        self.child: Any = Child()
        self.kids: list[Any] = [Child(), {"kid": Child()}]
        self.level = 0

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        super().load_state_dict(state, strict=strict)
        if self.level < 0:
            raise ValueError("a bad level")


class Stamped(Checked):
    """Adds to what we give, and takes it away again."""

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "stamp": 1}

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        del state["stamp"]
        super().load_state_dict(state, strict=strict)


class Upgraded(Checkpointable):
    """Adds to what we give, and lets us load it."""

    def __init__(self) -> None:
        self.child: Any = Child()
        self.kids: list[Any] = [Child(), {"kid": Child()}]

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict()


class Spelled(Upgraded):
    """Asks the objects in it by itself."""

    def state_dict(self) -> dict[str, Any]:
        first, second = self.kids[0], self.kids[1]["kid"]
        kids = [first.state_dict(), {"kid": second.state_dict()}]
        return {"child": self.child.state_dict(), "kids": kids}


def children(agent: Any) -> list[Any]:
    return [agent.child, agent.kids[0], agent.kids[1]["kid"]]


def test_a_load_that_its_own_method_ends_leaves_inner_objects_as_they_were() -> None:
    manager, bad, target = CheckpointManager(), Checked(), Checked()
    bad.level, bad.child.number, bad.kids = -1, 9, []
    before, kids = vars(target).copy(), children(target)
    for saved, into in ((bad, target), (Agent(bad), Agent(target))):
        manager.save("k", saved)
        with pytest.raises(ValueError, match="a bad level"):
            manager.load("k", into)
        assert vars(target) == before
        assert children(target) == kids
        assert target.child.number == 0


@pytest.mark.parametrize("make", [Checked, Stamped, Upgraded, Spelled])
@pytest.mark.parametrize("wrap", [lambda agent: agent, Agent], ids=["alone", "inside another"])
def test_a_rollback_gives_the_objects_in_it_back_as_well(make: Any, wrap: Any) -> None:
    manager, agent = CheckpointManager(), make()
    kids, connections = children(agent), [kid._conn for kid in children(agent)]
    with pytest.raises(RuntimeError), manager.rollback_context("k", wrap(agent)):  # noqa: PT012
        agent.child.number = agent.kids[0].number = 5
        agent.child, agent.kids = Child(7), [agent.kids[1], agent.kids[0]]
        raise RuntimeError
    assert children(agent) == kids
    assert [(kid.number, kid._conn) for kid in kids] == [(0, each) for each in connections]


@pytest.mark.parametrize("make", [Checked, Stamped, Upgraded])
def test_a_clone_has_objects_of_its_own_that_are_made_like_those_in_it(make: Any) -> None:
    agent = make()
    agent.child = agent.kids[0] = Child(7)
    agent.kids.append(Child(8))
    cloned = agent.clone()
    assert [child.number for child in children(cloned)] == [7, 7, 0]
    assert cloned.child is cloned.kids[0]
    assert hasattr(cloned.kids[2], "_conn")
    assert not {*children(cloned)} & {*children(agent)}


@pytest.mark.parametrize("make", [Agent, Checked, Stamped, Upgraded])
def test_what_a_rollback_saves_does_not_differ_from_the_object(make: Any) -> None:
    manager, agent = CheckpointManager(), make()
    agent.other = [Child(), {"__class__": "C", "__version__": "1", "__object__": Child()}]
    with manager.rollback_context("k", agent):
        pass
    assert manager.diff("k", agent=agent)["changed"] == {}
    found = manager.load("k", make())
    assert found.other[1].keys() == {"__class__", "__version__", "__object__"}


class Unaware(Checkpointable):
    """Its method does not know of strict."""

    def __init__(self, number: int = 0) -> None:
        self.number = number

    def load_state_dict(self, state: Any) -> None:  # type: ignore[override]
        self.number = state["number"]


def test_a_method_that_does_not_know_strict() -> None:
    manager, target = CheckpointManager(), Agent(Unaware())
    manager.save("k", Agent(Unaware(7)))
    for strict in (True, False):
        with pytest.raises(TypeError, match=rf"does not take strict={strict}.* leave strict out"):
            manager.load("k", target, strict=strict)
        assert target.memory.number == 0
    assert manager.load("k", target).memory.number == 7


class Window(Checkpointable):
    """Its state holds what it finds elsewhere when it is asked, and does not hold itself."""

    def __init__(self, onto: Any = None) -> None:
        self._onto = onto

    @property
    def seen(self) -> Any:
        return self._onto.memory[0]

    @seen.setter
    def seen(self, value: Any) -> None:
        self._found = value

    def _checkpoint_fields(self) -> list[str]:
        return ["seen"]


class Pane(Window):
    """The same by its own methods."""

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        self._found = state["seen"]


@pytest.mark.parametrize("make", [Window, Pane])
@pytest.mark.parametrize("holders", [0, 3])
def test_what_a_state_finds_elsewhere_is_shared_whoever_else_holds_its_object(
    make: Any, holders: int
) -> None:
    agent, target = Agent([{"a": 1}, {"b": 2}]), Agent()
    agent.pages = {"first": [make(agent)]}
    held = [agent.pages["first"][0]] * holders
    target.pages = {"first": [make(target)]}
    found = through_a_store(agent, target)
    assert len(held) == holders
    assert found.memory == [{"a": 1}, {"b": 2}]
    assert found.pages["first"][0]._found is found.memory[0]


class Sealed(Checkpointable):
    """Gives a mapping that is no dict."""

    def __init__(self, child: Any = None) -> None:
        self.child, self.row = child, [1]

    def state_dict(self) -> Any:
        return MappingProxyType({"child": self.child, "row": self.row, "again": self.row})

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        self.row, self.again, self.child = state["row"], state["again"], state["child"]


def test_a_state_that_is_a_mapping_but_no_dict() -> None:
    found = through_a_store(Sealed(Child()), Sealed())
    assert found.row == [1]
    assert found.row is found.again
    assert found.child["__class__"] == "Child"


class Boss(Checkpointable):
    def __init__(self, workers: int = 0) -> None:
        self.notes: list[Any] = []
        self.workers = [Reopening(self) for _ in range(workers)]


class Reopening(Checkpointable):
    """Leaves its state to us, and makes what is no state anew behind a load."""

    def __init__(self, boss: Boss) -> None:
        self.boss, self.notes = boss, boss.notes
        self._client = threading.Lock()  # which nobody can copy

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        super().load_state_dict(state, strict=strict)
        self._client = threading.Lock()


def through_a_rollback_that_lost_all(boss: Boss) -> Boss:
    manager = CheckpointManager()
    with pytest.raises(RuntimeError), manager.rollback_context("k", boss):  # noqa: PT012
        boss.workers, boss.notes = [], []
        raise RuntimeError
    return boss


def through_its_own_state(boss: Boss) -> Boss:
    boss.load_state_dict(boss.state_dict())
    return boss


@pytest.mark.parametrize(
    "way",
    [
        lambda boss: through_a_store(boss, Boss()),
        lambda boss: through_a_store(boss, boss),
        through_its_own_state,
        through_a_rollback_that_lost_all,
        Boss.clone,
    ],
    ids=["new", "in place", "state", "rollback", "clone"],
)
def test_what_it_shares_with_those_around_it_is_not_made_once_more(
    way: Callable[[Boss], Boss],
) -> None:
    boss = Boss(workers=3)
    boss.notes.append({"__class__": "data", "__version__": "of a user"})
    found = way(boss)
    assert found.notes == [{"__class__": "data", "__version__": "of a user"}]
    assert len(found.workers) == 3
    for worker in found.workers:
        assert worker.boss is found
        assert worker.notes is found.notes


class Keeping(Checkpointable):
    """Keeps what its boss was at the last load."""

    def __init__(self, boss: Any) -> None:
        self.boss = boss

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        super().load_state_dict(state, strict=strict)
        self._before = Boss()
        self._before.load_state_dict(state["boss"])


def test_the_state_of_another_object_is_copied_as_ever() -> None:
    boss: Any = Boss()
    boss.memory, boss.keeping = Memory("a"), Keeping(boss)
    boss.notes.append("b")
    found: Any = through_a_store(boss, Boss())
    before: Any = found.keeping._before
    assert found.keeping.boss is found
    assert before.notes == ["b"]
    assert before.notes is not found.notes
    assert before.memory.facts == ["a"]
    assert before.memory is not found.memory


class Member(Checkpointable):
    """Holds what others hold too, and makes what is no state anew behind a load."""

    def __init__(self, *held: Any) -> None:
        self.held = list(held)
        self._client = threading.Lock()  # which nobody can copy

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        super().load_state_dict(state, strict=strict)
        self._client = threading.Lock()


def through_a_state(agent: Any) -> Any:
    found = type(agent)()
    found.load_state_dict(agent.state_dict())
    return found


@pytest.mark.parametrize("make", [Agent, Member])
@pytest.mark.parametrize(
    "way",
    [
        lambda agent: through_a_store(agent, type(agent)()),
        lambda agent: through_a_store(agent, agent),
        through_a_state,
        Checkpointable.clone,
    ],
    ids=["new", "in place", "state", "clone"],
)
def test_what_only_they_hold_they_share_among_each_other(make: Any, way: Way) -> None:
    board, words = Memory("a"), {"__class__": "data", "__version__": "of a user"}
    chat = Member([board], words)
    found = way(make([Member(board, chat, words), Member(chat.held[0], words, chat)]))
    one, two = (found.memory if make is Agent else found.held[0])[:2]
    board, chat, words = one.held
    assert type(board) is Memory
    assert type(chat) is Member
    assert words == {"__class__": "data", "__version__": "of a user"}
    assert (two.held[1], two.held[2]) == (words, chat)
    assert two.held[1] is words
    assert two.held[0] is chat.held[0]
    assert two.held[0][0] is board
    assert chat.held[1] is words


@dataclass
class Pair:
    left: Any
    right: Any


@pytest.mark.parametrize("way", [through_a_state, lambda root: through_a_store(root, Member())])
def test_one_that_leads_back_from_far_below_leads_to_the_same(way: Way) -> None:
    root, worker = Member(), Member()
    worker.held = [root]
    root.held = [Member(Pair(worker, Member()), worker)]
    found = way(root)
    pair, worker = found.held[0].held
    assert pair.left is worker
    assert worker.held[0] is found


class Returning(Member):
    """Keeps what it was at the last load."""

    def load_state_dict(self, state: Any, *, strict: bool | None = None) -> None:
        self._before, self._after = Member(), Member()
        self._before.load_state_dict({**state, "__class__": "Member"})
        super().load_state_dict(state, strict=strict)
        self._after.load_state_dict({**state, "__class__": "Member"})


def test_objects_that_the_load_does_not_know_have_copies_of_their_own() -> None:
    found = through_a_store(Agent([Returning(["a"])])).memory[0]
    assert found.held == found._before.held == found._after.held == [["a"]]
    assert found.held[0] is not found._before.held[0]
    assert found.held[0] is not found._after.held[0]
