"""LangGraph on a Lastgood store. Needs the extra `lastgood[langgraph]`."""

from lastgood.adapters.langgraph.saver import LastgoodSaver

__all__ = ["LastgoodSaver"]
