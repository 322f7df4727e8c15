"""A message in a form that belongs to no framework: a role, and text or typed parts.

Parts are named after those of OpenTelemetry's conventions for generative models. What those lack
and agents need is added: `author`, `model`, `usage`, `is_error`, the signature of reasoning with
the provider that made it, `approval` of a tool call, and `native`, a part as its framework had it.

Also owns how to read any message, of these classes or of a framework's own: its id, and the text
that it says. Must not know where messages are kept. The one invariant: reading a message calls
nothing of its class but the attributes it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from types import NoneType
from typing import Any, ClassVar, Literal, TypeVar

from lastgood.codec import register
from lastgood.errors import an
from lastgood.ids import check_name, new_id, show_id

M = TypeVar("M")
Role = Literal["system", "user", "assistant", "tool"]
Approval = Literal["required", "granted", "denied"]


@register
@dataclass(frozen=True, slots=True)
class TextPart:
    """Text that is said."""

    type: ClassVar[str] = "text"
    """The kind of part, which is always `text`."""
    text: str
    """What is said."""
    native: object = None
    """The part in the form in which its framework had it."""


@register
@dataclass(frozen=True, slots=True)
class ReasoningPart:
    """Reasoning of a model."""

    type: ClassVar[str] = "reasoning"
    """The kind of part, which is always `reasoning`."""
    text: str
    """What was thought."""
    signature: str | None = None
    """The signature of the reasoning, which is of use only to the provider that made it."""
    provider: str | None = None
    """The provider that made the reasoning."""
    native: object = None
    """The part in the form in which its framework had it."""


@register
@dataclass(frozen=True, slots=True)
class ToolCall:
    """A request to call a tool."""

    type: ClassVar[str] = "tool_call"
    """The kind of part, which is always `tool_call`."""
    id: str
    """The id of the call, which the response refers to."""
    name: str
    """The name of the tool."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of the call, by name."""
    approval: Approval | None = None
    """Whether a person must agree first: `required`, `granted` or `denied`; None if nobody is
    asked."""
    native: object = None
    """The part in the form in which its framework had it."""


@register
@dataclass(frozen=True, slots=True)
class ToolCallResponse:
    """The result of a tool call."""

    type: ClassVar[str] = "tool_call_response"
    """The kind of part, which is always `tool_call_response`."""
    id: str
    """The id of the call."""
    result: object = None
    """What the tool returned."""
    name: str | None = None
    """The name of the tool."""
    is_error: bool = False
    """Whether the result is an error."""
    native: object = None
    """The part in the form in which its framework had it."""


@register
@dataclass(frozen=True, slots=True)
class BlobPart:
    """A picture, a sound or a document, given by its bytes."""

    type: ClassVar[str] = "blob"
    """The kind of part, which is always `blob`."""
    content: bytes
    """The bytes."""
    mime_type: str
    """The type of the content, such as `image/png`."""
    native: object = None
    """The part in the form in which its framework had it."""


@register
@dataclass(frozen=True, slots=True)
class UriPart:
    """A picture, a sound or a document, given by its address."""

    type: ClassVar[str] = "uri"
    """The kind of part, which is always `uri`."""
    uri: str
    """The address."""
    mime_type: str | None = None
    """The type of what is at the address, such as `image/png`."""
    native: object = None
    """The part in the form in which its framework had it."""


Part = TextPart | ReasoningPart | ToolCall | ToolCallResponse | BlobPart | UriPart


def _fresh_id() -> str:
    return show_id(new_id())


@register
@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Role | str
    """The role of the speaker: `system`, `user`, `assistant`, `tool`, or another one."""
    content: str | Sequence[Part] = ""
    """Text, or a sequence of parts. None, which some providers send beside tool calls, counts as
    nothing said."""
    message_id: str | int = field(default_factory=_fresh_id)
    """The id of the message in its thread; by default a new one."""
    author: str | None = None
    """Which of several users or agents wrote the message."""
    model: str | None = None
    """The model that wrote the message."""
    usage: Mapping[str, Any] | None = None
    """The tokens, as the provider counted them."""
    is_error: bool = False
    """Whether the message reports an error."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else is to be kept with the message."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content as parts, whichever way it was given."""
        if isinstance(self.content, str):
            return (TextPart(self.content),) if self.content else ()
        return tuple(self.content or ())

    @property
    def text(self) -> str:
        """What is said, without reasoning and calls."""
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls among its parts."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


def message_id(message: object, what: str = "message") -> str:
    """The id of any message, as text: `message_id`, or `id` where a framework calls it so."""
    for name in ("message_id", "id"):
        found = _attribute(message, name)
        if found is not None:
            return as_text(found, f"{what}.{name}")
    raise ValueError(
        f"{what} has no message_id: {message!r:.60}. Give it one; the same id put again is the "
        "same message."
    )


def as_text(value: object, what: str) -> str:
    """An id that may be a number, as it is stored."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return check_name(value, what)


def spoken(message: object) -> str:
    """The text that a search looks into: what is said, thought, called and answered."""
    names: tuple[str, ...] = ("content",) if isinstance(message, Message) else _SPEAKING
    if all(_attribute(message, name) is None for name in names):
        names = _SAID  # it is a part by itself, as the items of OpenAI's responses are
    return "\n".join(text for name in names for text in _texts(_attribute(message, name)))


def with_metadata(message: M, metadata: Mapping[str, Any] | None) -> M:
    """The message with more metadata; the one that was passed in stays as it is."""
    if not metadata:
        return message
    merged = {**(_attribute(message, "metadata") or {}), **metadata}
    made: Any = message
    if isinstance(made, Mapping):
        return {**made, "metadata": merged}  # type: ignore[return-value]
    if is_dataclass(made):
        return replace(made, metadata=merged)  # type: ignore[return-value, type-var]
    if hasattr(made, "model_copy"):
        return made.model_copy(update={"metadata": merged})  # type: ignore[no-any-return]
    raise TypeError(f"metadata cannot be added to {an(type(message).__name__)}: {message!r:.60}")


_SPEAKING = ("content", "parts", "reasoning_content", "tool_calls", "function_call")
"""Where messages of frameworks have their words; those of ours have all of them in the content."""
_SAID = (
    *("text", "thinking", "reasoning", "refusal", "summary"),
    *("name", "arguments", "args", "input", "function", "result", "output", "content"),
    *("parts", "root", "function_call", "function_response", "response"),
    *("code", "executable_code", "code_execution_result"),
)
"""Where parts have their words, in our classes and in those of frameworks."""
_PLAIN = (str, int, float, bytes, bytearray, NoneType)
_SILENT = frozenset({"type", "data", "source", "url", "image_url", "file_data"})
"""What nobody says in a part of somebody's answer: its kind, and what is no text."""
_KINDS = ("text", "file", "data")
"""What A2A calls its parts. These, and whoever has a type, are parts; all that is in any other dict
is said."""
_BYTES = frozenset({"inlineData", "inline_data", "thoughtSignature", "thought_signature"})
"""Where the parts of Gemini, which have no kind, have what is no text."""


def _texts(content: object) -> Iterator[str]:
    """What is said in a content: a text, a part, or several of them."""
    if isinstance(content, Sequence) and not isinstance(content, str | bytes | bytearray):
        for part in content:
            yield from _texts(part)
    elif isinstance(content, _PLAIN) or (isinstance(content, Mapping) and not _is_part(content)):
        yield from _inside(content)
    else:
        for name in _SAID:
            yield from _inside(_attribute(content, name))


def _is_part(content: Mapping[Any, Any]) -> bool:
    return "type" in content or content.get("kind") in _KINDS


def _inside(value: object) -> Iterator[str]:
    """What is said in an argument or an answer, whatever its keys are called."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        silent = _SILENT if "type" in value else _BYTES
        for key, item in value.items():
            if key not in silent:
                yield from _inside(item)
    elif isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        for item in value:
            yield from _inside(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
    elif value is not None and not isinstance(value, bytes | bytearray | bool):
        yield from _texts(value)


def _attribute(owner: object, name: str) -> Any:
    found = owner.get(name) if isinstance(owner, Mapping) else getattr(owner, name, None)
    return None if callable(found) else found
