"""The package index as it is configured for pip: environment variables and pip's configuration files."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from typing import Any
from urllib.request import pathname2url

from patchkit.core.errors import ConfigError

_SECTIONS = (":env:", "download", "install", "global")  # strongest first: the index options are those of both commands
_FALSE = ("", "0", "false", "no", "off", "n", "f")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings:
    """Index URLs in the order in which they are asked (with credentials, if configured so), and the CA file."""

    urls: tuple[str, ...]
    ca_bundle: str | None


def load_settings() -> IndexSettings:
    """Return what pip would use; without pip in this environment, its environment variables alone count.

    Raises `ConfigError` where no index is configured and pip is not there to name its default,
    where pip's configuration cannot be read, and where it forbids an index.
    """
    configuration = _configuration()
    if (_option(configuration, "no-index") or "").lower() not in _FALSE:
        raise ConfigError("pip is configured with no-index", hint="unset PIP_NO_INDEX, or read from another source")
    first = _option(configuration, "index-url") or _default_index()
    extra = (_option(configuration, "extra-index-url") or "").split()
    urls = dict.fromkeys(_as_url(url) for url in (first, *extra))
    return IndexSettings(urls=tuple(urls), ca_bundle=_option(configuration, "cert"))


def _configuration() -> Any:
    """Return pip's loaded configuration, or None where pip is not installed."""
    try:
        module = importlib.import_module("pip._internal.configuration")
        exceptions = importlib.import_module("pip._internal.exceptions")
    except ImportError:
        return None
    configuration = module.Configuration(isolated=False)
    try:
        configuration.load()
    except exceptions.ConfigurationError as error:
        raise ConfigError(f"pip's configuration cannot be read: {error}", hint="pip config debug") from error
    return configuration


def _option(configuration: Any, name: str) -> str | None:
    if configuration is None:
        return os.environ.get("PIP_" + name.upper().replace("-", "_")) or None
    exceptions = importlib.import_module("pip._internal.exceptions")
    for section in _SECTIONS:
        try:
            value = str(configuration.get_value(f"{section}.{name}")).strip()
        except exceptions.ConfigurationError:
            continue
        if value:
            return value
    return None


def _default_index() -> str:
    try:
        return str(importlib.import_module("pip._internal.models.index").PyPI.simple_url)
    except (ImportError, AttributeError):
        raise ConfigError(
            "no package index is configured, and pip, which knows the default, is not installed here",
            hint="set PIP_INDEX_URL, or install pip into this environment",
        ) from None


def _as_url(location: str) -> str:
    """Return an index location as a URL that ends in no slash; a local path becomes a file URL."""
    if "://" not in location and not location.startswith("file:"):
        location = "file://" + pathname2url(os.path.abspath(location))
    return location.rstrip("/")
