"""Threads and messages: the state of an agent and its conversation, kept under a thread's id.

The door for who comes from agentflow, or wants messages kept for them. It stands on the client and
its backends: a state that is put is a checkpoint of its thread.
"""

from lastgood.checkpointers.agent_state import AgentState, ExecutionState
from lastgood.checkpointers.base import BaseCheckpointer
from lastgood.checkpointers.builtin import (
    InMemoryCheckpointer,
    PgCheckpointer,
    RedisCheckpointer,
    SqliteCheckpointer,
)
from lastgood.checkpointers.client_checkpointer import ClientCheckpointer
from lastgood.messages import (
    BlobPart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolCallResponse,
    UriPart,
)
from lastgood.model import ThreadInfo

__all__ = [
    "AgentState",
    "BaseCheckpointer",
    "BlobPart",
    "ClientCheckpointer",
    "ExecutionState",
    "InMemoryCheckpointer",
    "Message",
    "PgCheckpointer",
    "ReasoningPart",
    "RedisCheckpointer",
    "SqliteCheckpointer",
    "TextPart",
    "ThreadInfo",
    "ToolCall",
    "ToolCallResponse",
    "UriPart",
]
