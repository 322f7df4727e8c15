"""LangGraph on a Lastgood store. Needs the extra `lastgood[langgraph]`."""

from lastgood.registry import MissingExtraError

try:
    from lastgood.adapters.langgraph import tags as tags  # registers the classes of both libraries
    from lastgood.adapters.langgraph.adapter import LangGraphAdapter
    from lastgood.adapters.langgraph.saver import LastgoodSaver
    from lastgood.adapters.langgraph.store import LastgoodStore
except ModuleNotFoundError as error:
    if str(error.name).startswith("lastgood"):
        raise
    raise MissingExtraError(
        'LangGraph support is not installed: pip install "lastgood[langgraph]"'
    ) from error

__all__ = ["LangGraphAdapter", "LastgoodSaver", "LastgoodStore"]
