"""Places a stack is applied to."""
