"""patchkit: the container patch manager for LLM serving."""

__version__ = "0.1.0"
