"""The same conversations as LangChain messages, beside a pydantic model: W9."""

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from pydantic import BaseModel

from benchmarks.data import Message, conversation
from benchmarks.scenarios import Delta, Scenario, sized


class Task(BaseModel):
    """What the agent works on: the part of the state that is not a list of messages."""

    name: str
    step: int
    budget: float
    labels: list[str]


def as_langchain(message: Message) -> Any:
    """A message of the generated conversation as LangChain has it."""
    if message["role"] == "user":
        return HumanMessage(message["content"], id=message["id"])
    if message["role"] == "tool":
        call = message["tool_call_id"]
        return ToolMessage(str(message["content"]), tool_call_id=call, id=message["id"])
    calls = [
        {"name": call["name"], "args": call["arguments"], "id": call["id"]}
        for call in message.get("tool_calls", [])
    ]
    return AIMessage(message["content"], tool_calls=calls, id=message["id"])


def messages(count: int) -> list[Any]:
    """A conversation of so many messages."""
    pairs = conversation(count // 2)
    return [as_langchain(message) for pair in pairs for message in pair]


def langchain(scale: float) -> Scenario:
    """W9: each step adds two LangChain messages and moves a pydantic model on."""
    deltas: list[Delta] = []
    for number, added in enumerate(conversation(sized(300, scale)), start=1):
        task = Task(name="invoice", step=number, budget=number / 7, labels=["open", "paid"])
        deltas.append(
            [["extend", "messages", [as_langchain(each) for each in added]], ["set", "task", task]]
        )
    first = Task(name="invoice", step=0, budget=0, labels=[])
    return Scenario({"messages": [], "task": first}, deltas)
