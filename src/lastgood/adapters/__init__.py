"""Adapters for agent frameworks, one module or package each; importing one needs its extra."""
