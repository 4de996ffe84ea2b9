"""The edges: HTTP, subprocesses, the terminal; one module each imports the library for it."""
