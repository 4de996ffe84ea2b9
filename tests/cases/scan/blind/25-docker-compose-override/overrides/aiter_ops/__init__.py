from . import rope  # noqa: F401
