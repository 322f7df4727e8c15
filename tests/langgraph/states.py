"""Classes that tests keep in the state of a graph."""

from dataclasses import dataclass


@dataclass
class Order:
    name: str


@dataclass
class Other:
    name: str
