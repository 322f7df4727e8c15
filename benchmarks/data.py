"""Conversations as agents have them: chat, tool calls, tool results, in varied English.

Everything follows from a seed, so that all stores save the same bytes. A message has about 600
bytes as compact JSON; a step adds two.
"""

import random
from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]
State = dict[str, Any]

NOUNS = """
    account address agent agenda answer archive attempt balance basket budget calendar campaign
    carrier category choice clause column comment contract currency customer deadline decision
    delivery deposit desk detail discount document draft engine error estimate exception failure
    figure forecast format function guest guideline holiday hotel invoice journey label language
    ledger letter margin market measure meeting message method minute network note offer office
    order outline owner package page partner password patch pattern payment phrase picture plan
    platform policy price printer problem process product promise proposal question queue quota
    reason receipt record refund region reminder report request result review risk route rule
    sample schedule season section server service shipment signal source station summary supplier
    survey table target team template ticket tool topic trace translation user version warehouse
""".split()
ADJECTIVES = """
    actual annual brief broken careful cheap clear common complete current customary daily
    different direct doubtful early empty exact external final foreign formal former frequent
    general global heavy hidden important internal joint late legal local long main manual minor
    missing modern monthly narrow new normal obvious official old open original overdue partial
    plain possible previous private proper public quick rare recent regular remote second serious
    shared short similar simple small special stable strange strict sudden temporary third total
    unusual urgent useful valid visible weekly whole wrong
""".split()
VERBS = """
    accepts avoids becomes blocks cancels causes changes checks confirms contains contradicts
    covers creates delays describes exceeds explains extends fills follows hides improves includes
    joins keeps limits matches mentions misses moves needs opens passes prepares prevents protects
    reaches receives reduces removes repeats replaces requires returns reveals shortens shows
    splits starts supports updates uses verifies
""".split()
ADVERBS = [
    *["again", "already", "as expected", "at once", "by mistake", "eventually", "for now"],
    *["in most cases", "on Monday", "on purpose", "partly", "quietly", "since spring"],
    *["this morning", "today", "twice a week", "without notice"],
]
LINKS = ["after", "although", "and", "as soon as", "because", "but", "so", "unless", "while"]
TOOLS = ["search_orders", "read_page", "send_mail", "book_slot", "run_query", "convert_currency"]


def conversation(steps: int, seed: int = 1) -> Iterator[list[Message]]:
    """The two messages that each step adds: a question and an answer, or a call and its result."""
    rng = random.Random(seed)
    for _ in range(steps):
        if rng.random() < 0.5:
            yield [_chat(rng, "user"), _chat(rng, "assistant")]
        else:
            call = _call(rng)
            yield [call, _result(rng, call)]


def windows(count: int, length: int, seed: int) -> Iterator[State]:
    """States that hold the last `length` messages of a conversation, one per step."""
    messages: list[Message] = []
    for number, added in enumerate(conversation(count + length // 2, seed)):
        messages = [*messages, *added][-length:]
        if len(messages) == length and number >= length // 2:
            yield {"messages": messages, "turn": number, "topic": added[0]["id"]}


def revised(messages: list[Message], seed: int = 2) -> list[Message]:
    """The same messages but for three: one edited, one removed, one that came in between."""
    rng = random.Random(seed)
    third = len(messages) // 3
    found = [*messages]
    found[2 * third] = {**found[2 * third], "content": text(rng, 300)}
    del found[third]
    found.insert(third // 2, _chat(rng, "user"))
    return found


def _phrase(rng: random.Random) -> str:
    article = rng.choice(["the", "the", "a", "this", "our", "their"])
    words = [article, rng.choice(ADJECTIVES), rng.choice(NOUNS)]
    return " ".join(words if rng.random() < 0.6 else [article, words[2]])


def _clause(rng: random.Random) -> str:
    words = [_phrase(rng), rng.choice(VERBS), _phrase(rng)]
    return " ".join([*words, rng.choice(ADVERBS)] if rng.random() < 0.3 else words)


def _sentence(rng: random.Random) -> str:
    text = _clause(rng)
    if rng.random() < 0.5:
        text += f", {rng.choice(LINKS)} {_clause(rng)}"
    if rng.random() < 0.2:
        text += f" ({rng.randint(2, 9_999)} of {rng.randint(10_000, 99_999)})"
    return text[0].upper() + text[1:] + "."


def text(rng: random.Random, size: int) -> str:
    """Sentences of at least so many characters."""
    sentences = [_sentence(rng)]
    length = len(sentences[0])
    while length < size:
        sentences.append(_sentence(rng))
        length += len(sentences[-1])
    return " ".join(sentences)


def _name(rng: random.Random, prefix: str) -> str:
    return f"{prefix}_{rng.getrandbits(64):016x}"


def _chat(rng: random.Random, role: str) -> Message:
    message: Message = {
        "role": role,
        "id": _name(rng, "msg"),
        "content": text(rng, rng.randint(150, 700)),
    }
    if role == "assistant":
        tokens = {"input": rng.randint(900, 90_000), "output": rng.randint(20, 900)}
        message["usage"] = tokens
    return message


def _call(rng: random.Random) -> Message:
    arguments = {"query": text(rng, rng.randint(80, 200)), "limit": rng.randint(1, 50)}
    tool_call = {"id": _name(rng, "call"), "name": rng.choice(TOOLS), "arguments": arguments}
    return {
        "role": "assistant",
        "id": _name(rng, "msg"),
        "content": text(rng, rng.randint(60, 250)),
        "tool_calls": [tool_call],
    }


def _result(rng: random.Random, call: Message) -> Message:
    tool_call = call["tool_calls"][0]
    rows = [
        {"key": rng.randint(1, 10**6), "score": rng.random(), "text": text(rng, 60)}
        for _ in range(rng.randint(2, 6))
    ]
    return {
        "role": "tool",
        "id": _name(rng, "msg"),
        "tool_call_id": tool_call["id"],
        "name": tool_call["name"],
        "content": {"ok": True, "took": rng.random(), "rows": rows},
    }
