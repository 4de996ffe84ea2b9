"""The package index as it is configured for pip: environment variables and pip's configuration files.

The rules are those of pip's `Configuration` (a test holds the two against each other), read here
without pip: importing that takes longer than everything else that an answer from the cache needs.
"""

from __future__ import annotations

import configparser
import importlib
import locale
import os
import sys
from dataclasses import dataclass
from urllib.parse import quote

from patchkit.core.errors import ConfigError

_SECTIONS = ("download", "install", "global")  # strongest first: the index options are those of both commands
_FALSE = ("", "0", "false", "no", "off", "n", "f")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings:
    """Index URLs in the order in which they are asked (with credentials, if configured so), and the CA file."""

    urls: tuple[str, ...]
    ca_bundle: str | None


def load_settings() -> IndexSettings:
    """Return the indexes and the file of certificate authorities that pip would use.

    Raises `ConfigError` where no index is configured and pip is not there to name its default,
    where a configuration file of pip's cannot be read, and where it forbids an index.
    """
    options = _options()
    if options.get("no-index", "").lower() not in _FALSE:
        raise ConfigError("pip is configured with no-index", hint="unset PIP_NO_INDEX, or read from another source")
    first = options.get("index-url") or _default_index()
    urls = dict.fromkeys(_as_url(url) for url in (first, *options.get("extra-index-url", "").split()))
    return IndexSettings(urls=tuple(urls), ca_bundle=options.get("cert"))


def certificates() -> str | None:
    """The file of certificate authorities that pip would use for any index; None where none is configured."""
    return _options().get("cert")


def config_files() -> list[str]:
    """Return pip's configuration files, weakest first, whether or not they are there."""
    named = os.environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    home = os.path.expanduser("~")
    shared = os.environ.get("XDG_CONFIG_DIRS", "").strip() or "/etc/xdg"
    files = [os.path.join(directory, "pip", "pip.conf") for directory in shared.split(os.pathsep) if directory]
    files.append("/etc/pip.conf")
    if not (named and os.path.exists(named)):
        own = os.environ.get("XDG_CONFIG_HOME", "").strip() or os.path.join(home, ".config")
        files += [os.path.join(home, ".pip", "pip.conf"), os.path.join(own, "pip", "pip.conf")]
    files.append(os.path.join(sys.prefix, "pip.conf"))
    return [*files, named] if named else files


def _options() -> dict[str, str]:
    """Return the index options that count: a variable before a file, a command's section before [global]."""
    sections: dict[str, dict[str, str]] = {}
    for path in config_files():
        for section, values in _parsed(path).items():
            sections.setdefault(section, {}).update(values)
    options: dict[str, str] = {}
    for name in ("no-index", "index-url", "extra-index-url", "cert"):
        given = [os.environ.get("PIP_" + name.upper().replace("-", "_"), "")]
        given += [sections.get(section, {}).get(name, "") for section in _SECTIONS]
        value = next((text.strip() for text in given if text.strip()), None)
        if value is not None:
            options[name] = value
    return options


def _parsed(path: str) -> dict[str, dict[str, str]]:
    """Return a file's sections; a file that is not there, or that may not be read, has none, as for pip."""
    if not os.path.isfile(path) or not os.access(path, os.R_OK):
        return {}
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, encoding=locale.getpreferredencoding(do_setlocale=False))
        names = {section: parser.items(section) for section in parser.sections()}
    except (configparser.Error, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path}: pip's configuration cannot be read: {type(error).__name__}", hint="pip config debug"
        ) from error
    return {
        section: {name.lower().replace("_", "-").removeprefix("--"): value for name, value in values}
        for section, values in names.items()
    }


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
        location = "file://" + quote(os.path.abspath(location))
    return location.rstrip("/")
