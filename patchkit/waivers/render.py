"""The document of a waiver: the only module that knows the template engine.

Whatever a template prints is escaped as Markdown, unless `code`, `link` or `fence` made it. What is undefined is an
error, templates cannot reach outside their data, and nothing of the machine or the time goes into the text.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from patchkit.core.errors import ConfigError
from patchkit.waivers import markdown

if TYPE_CHECKING:
    from patchkit.waivers.view import View

DEFAULT = "waiver.md.j2"
#: Filters that would mark text as safe because it is safe as HTML, which is not enough here.
_HTML_ONLY = ("e", "escape", "forceescape", "tojson", "urlize", "xmlattr")
_FOLDER = Path(__file__).parent / "templates"


def default_template() -> str:
    """The template that ships; an own one can `extend` it under its name, waiver.md.j2."""
    return (_FOLDER / DEFAULT).read_text(encoding="utf-8")


def render(view: View, template: str | None = None, name: str = DEFAULT) -> str:
    """The document as Markdown, ending in one newline. `template` is the text of an own one, `name` what messages
    call it. Raises ConfigError for what is wrong with it."""
    environment = ImmutableSandboxedEnvironment(
        loader=jinja2.DictLoader({DEFAULT: default_template()}),
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        autoescape=True,  # what has no __html__ is escaped: by _finalize, as Markdown
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name_of in _HTML_ONLY:
        del environment.filters[name_of]
    environment.filters["replace"] = lambda text, old, new: str(text).replace(str(old), str(new))
    environment.filters["join"] = lambda items, between="": str(between).join(str(item) for item in items)
    environment.filters["code"] = lambda value: markdown.code(str(value))
    environment.globals["link"] = lambda label, address: markdown.link(str(label), str(address))
    environment.globals["fence"] = lambda text: markdown.fence(str(text))
    hint = f"correct {name}, or leave --template out"
    try:
        if template is None:
            text = environment.get_template(DEFAULT).render(view=view)
        else:
            text = environment.from_string(template).render(view=view)
    except jinja2.TemplateSyntaxError as error:
        raise ConfigError(f"{name}:{error.lineno}: {error.message}", hint=hint) from error
    except jinja2.TemplateError as error:
        raise ConfigError(f"{name}: {error.message or type(error).__name__}", hint=hint) from error
    except (TypeError, ValueError, AttributeError, ArithmeticError, LookupError) as error:
        if template is None:
            raise
        raise ConfigError(f"{name}: {error}", hint=hint) from error
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


def _finalize(value: object) -> object:
    if hasattr(value, "__html__"):
        return value
    return markdown.escape("not stated" if value is None else str(value))
