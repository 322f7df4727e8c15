"""LangGraph on a Lastgood store. Needs the extra `lastgood[langgraph]`."""

from lastgood.adapters.langgraph import tags as tags  # registers the classes of both libraries
from lastgood.adapters.langgraph.adapter import LangGraphAdapter
from lastgood.adapters.langgraph.saver import LastgoodSaver
from lastgood.adapters.langgraph.store import LastgoodStore

__all__ = ["LangGraphAdapter", "LastgoodSaver", "LastgoodStore"]
