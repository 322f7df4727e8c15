"""Durable state for AI agents: every step saved, every run resumed from its last good step."""

from lastgood.blocking_runs import BlockingRun
from lastgood.changes import Change
from lastgood.checkpoints import Checkpoint, CheckpointBuilder
from lastgood.client import BlockingClient, Client
from lastgood.codec import Loss, Opaque, register
from lastgood.diffs import Diff
from lastgood.errors import (
    AdapterError,
    BackendConnectionError,
    CheckpointConflictError,
    CheckpointExpiredError,
    CheckpointIntegrityError,
    CheckpointNotFoundError,
    IncompatibleCheckpointError,
    LastgoodError,
    RunStateError,
    SchemaMigrationError,
    SerializationError,
    StaleWriterError,
    StorageError,
    StorageFullError,
    ThreadDeletedError,
    ThreadOwnerError,
    TransientStorageError,
    WrongKeyError,
)
from lastgood.migrations import register_migration
from lastgood.model import (
    Bisection,
    Blame,
    BranchInfo,
    Framework,
    Gap,
    Header,
    Move,
    Page,
    ThreadInfo,
)
from lastgood.objects import Checkpointable, CheckpointManager, checkpoint
from lastgood.reports import CopyReport, NotCopied, Problem, Report, Salvaged, Size, Stats, Swept
from lastgood.runs import Run

__version__ = "0.1.0"

__all__ = [
    "AdapterError",
    "BackendConnectionError",
    "Bisection",
    "Blame",
    "BlockingClient",
    "BlockingRun",
    "BranchInfo",
    "Change",
    "Checkpoint",
    "CheckpointBuilder",
    "CheckpointConflictError",
    "CheckpointExpiredError",
    "CheckpointIntegrityError",
    "CheckpointManager",
    "CheckpointNotFoundError",
    "Checkpointable",
    "Client",
    "CopyReport",
    "Diff",
    "Framework",
    "Gap",
    "Header",
    "IncompatibleCheckpointError",
    "LastgoodError",
    "Loss",
    "Move",
    "NotCopied",
    "Opaque",
    "Page",
    "Problem",
    "Report",
    "Run",
    "RunStateError",
    "Salvaged",
    "SchemaMigrationError",
    "SerializationError",
    "Size",
    "StaleWriterError",
    "Stats",
    "StorageError",
    "StorageFullError",
    "Swept",
    "ThreadDeletedError",
    "ThreadInfo",
    "ThreadOwnerError",
    "TransientStorageError",
    "WrongKeyError",
    "__version__",
    "checkpoint",
    "register",
    "register_migration",
]
