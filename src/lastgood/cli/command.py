"""What a command of the command line is: a name, its options and the function that runs it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the table of commands."""

    name: str
    help: str
    """One line for the list of commands."""
    description: str
    options: Callable[[ArgumentParser], None]
    """Declares the options of this command."""
    run: Callable[[Namespace], int]
    """Does the work and gives back the exit code."""
