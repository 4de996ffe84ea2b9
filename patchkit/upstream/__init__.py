"""What became of the pull requests that a stack's steps come from, and what to do about each step."""
