"""Use cases: which lock, which target, which source."""
