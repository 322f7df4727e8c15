"""The backends: one file (or a few) per kind of store, all behind `lastgood.backend.Backend`."""
