"""What Lastgood has to reach: four kinds of gate, each one number against a bound.

A gate looks at the figures of one round, by store, and gives a number, or None where a store was
not measured. The verdict is on the median over the rounds. For every figure, less is better.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from benchmarks.figures import Figures

Round = Mapping[str, Figures]

WORDS = {
    "seconds": "total time",
    "bytes": "bytes at rest",
    "new_bytes": "bytes of what was new",
    "pages": "bytes of its unique pages",
    "first_p50_ms": "p50 of the first 100 saves",
    "last_p50_ms": "p50 of the last 100 saves",
    "restore_ms": "restore of the newest state",
    "save_ms": "time to bytes",
    "load_ms": "time from bytes",
    "full_ms": "list of the 20 newest states",
    "headers_ms": "ms for the 20 newest headers",
    "few_ms": "first page of a small store",
    "many_ms": "first page of a large store",
    "highest_mb": "highest RSS in MB",
    "empty_p50_ms": "p50 into an empty thread",
    "full_p50_ms": "p50 into one with 10,000 messages",
}


def _word(figure: str) -> str:
    return WORDS.get(figure, figure)


class Gate(ABC):
    """One thing to reach."""

    @property
    @abstractmethod
    def text(self) -> str:
        """What is compared with what, with the bound."""

    @abstractmethod
    def value(self, figures: Round) -> float | None:
        """The number of one round."""

    @abstractmethod
    def met(self, value: float) -> bool:
        """Whether a number is good enough."""


@dataclass(frozen=True, slots=True)
class Times(Gate):
    """The peer's figure is at least so many times ours."""

    figure: str
    ours: str
    peer: str
    at_least: float

    @property
    def text(self) -> str:
        return f"{_word(self.figure)}: {self.peer} / {self.ours} >= {self.at_least:g}"

    def value(self, figures: Round) -> float | None:
        return _ratio(figures, self.peer, self.figure, self.ours, self.figure)

    def met(self, value: float) -> bool:
        return value >= self.at_least


@dataclass(frozen=True, slots=True)
class Within(Gate):
    """Our figure is at most so many times the peer's."""

    figure: str
    ours: str
    peer: str
    at_most: float

    @property
    def text(self) -> str:
        return f"{_word(self.figure)}: {self.ours} / {self.peer} <= {self.at_most:g}"

    def value(self, figures: Round) -> float | None:
        return _ratio(figures, self.ours, self.figure, self.peer, self.figure)

    def met(self, value: float) -> bool:
        return value <= self.at_most


@dataclass(frozen=True, slots=True)
class Share(Gate):
    """One figure of a store is at most so many times another of the same store."""

    figure: str
    of: str
    store: str
    at_most: float

    @property
    def text(self) -> str:
        return f"{self.store}: {_word(self.figure)} / {_word(self.of)} <= {self.at_most:g}"

    def value(self, figures: Round) -> float | None:
        return _ratio(figures, self.store, self.figure, self.store, self.of)

    def met(self, value: float) -> bool:
        return value <= self.at_most


@dataclass(frozen=True, slots=True)
class Limit(Gate):
    """A figure of a store stays under a bound."""

    figure: str
    store: str
    at_most: float

    @property
    def text(self) -> str:
        return f"{self.store}: {_word(self.figure)} <= {self.at_most:g}"

    def value(self, figures: Round) -> float | None:
        return figures[self.store][self.figure] if self.store in figures else None

    def met(self, value: float) -> bool:
        return value <= self.at_most


@dataclass(frozen=True, slots=True)
class Verdict:
    """A gate with what was found: the median over the rounds, and the range."""

    workload: str
    gate: str
    value: float
    lowest: float
    highest: float
    met: bool


def judge(workload: str, gate: Gate, rounds: Iterable[Round]) -> Verdict | None:
    """The verdict, or None if the stores were not measured in one round."""
    values = [value for figures in rounds if (value := gate.value(figures)) is not None]
    if not values:
        return None
    middle = median(values)
    return Verdict(workload, gate.text, middle, min(values), max(values), gate.met(middle))


def _ratio(figures: Round, store: str, figure: str, other: str, divisor: str) -> float | None:
    if store not in figures or other not in figures:
        return None
    return figures[store][figure] / figures[other][divisor]
