"""The forms that values have, written once: in the type of a field, in its message, in the JSON schema.

A form is metadata in `Annotated[str, Form(...)]`. pydantic asks it for a validator and for a JSON
schema when it is loaded at the edge; the types themselves need nothing but the standard library.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema


def _alias(name: str) -> str:
    return name.rstrip("_")


EDGE: Mapping[str, Any] = {"extra": "forbid", "strict": True, "alias_generator": _alias}
"""How pydantic reads each of the types: no unknown key, no conversion; `with_` is `with` in a file."""

PROBLEM = "patchkit"
"""The type of the validation errors that carry their own words."""

LABEL = "\0"
"""What the label of a choice starts with: no key in a file can."""

TAG_TEXT, TAG_LIST, TAG_MAPPING = f"{LABEL}text", f"{LABEL}list", f"{LABEL}mapping"


@dataclass(frozen=True, slots=True)
class Form:
    """A string that matches `pattern` whole; `words` completes the sentence "expected ..."."""

    pattern: str
    words: str

    def holds(self, value: str) -> bool:
        """Return whether `value` has this form."""
        return re.fullmatch(self.pattern, value) is not None

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import PydanticCustomError, core_schema

        def check(value: str) -> str:
            if not self.holds(value):
                raise PydanticCustomError(PROBLEM, "{words}", {"words": self.words})
            return value

        return core_schema.no_info_after_validator_function(check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "pattern": f"^(?:{self.pattern})$", "description": self.words}


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A whole number not below `least`."""

    least: int

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema: Any = {**handler(source), "ge": self.least}
        return schema  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class NonEmpty:
    """A list with at least one item."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema: Any = {**handler(source), "min_length": 1}
        return schema  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Choice:
    """A value of one of several types. `pick` names the option by looking at the plain data.

    The reporter takes the labels out of the path again. The type called `unlisted` is there for its
    messages only and is left out of the JSON schema.
    """

    pick: Callable[[Any], str]
    options: tuple[tuple[str, Any], ...]
    unlisted: str = ""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        choices = {label: handler.generate_schema(option) for label, option in self.options}
        return core_schema.tagged_union_schema(choices, discriminator=self.pick)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        found = handler(schema)
        titles = [(option, handler.resolve_ref_schema(option).get("title")) for option in found["oneOf"]]
        return {"oneOf": [option for option, title in titles if title != self.unlisted]}


@dataclass(frozen=True, slots=True)
class OneOrMany:
    """A list of `item` with at least one of them, or a single one: always a tuple in the end."""

    item: Any

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        item = handler.generate_schema(self.item)
        single = core_schema.no_info_after_validator_function(lambda value: (value,), item)
        many = core_schema.tuple_schema([item], variadic_item_index=0, min_length=1)
        return core_schema.tagged_union_schema({TAG_TEXT: single, TAG_LIST: many}, discriminator=text_or_list)


@dataclass(frozen=True, slots=True)
class Pairs:
    """A mapping in the file; a tuple of (key, value) in the file's order in the type."""

    key: Any
    value: Any

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        mapping = core_schema.dict_schema(handler.generate_schema(self.key), handler.generate_schema(self.value))
        return core_schema.no_info_after_validator_function(lambda found: tuple(found.items()), mapping)


def label(kind: type[object]) -> str:
    """Return the label of a choice that is one of the model's types."""
    return f"{LABEL}{kind.__name__}"


def text_or_list(value: object) -> str:
    """Label plain data: a list as a list, all else as text."""
    return TAG_LIST if isinstance(value, list) else TAG_TEXT


def text_or_mapping(value: object) -> str:
    """Label plain data: a mapping as a mapping, all else as text."""
    return TAG_MAPPING if isinstance(value, dict) else TAG_TEXT


_PART = r"(?!\.{1,2}(?:/|$))[^/\\\x00-\x1f\x7f]+"
_PATH = rf"(?!\.patchkit(?:/|$)){_PART}(?:/{_PART})*"
_REPO = r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]*[A-Za-z0-9_-]"
#: On another forge than github.com the host stands before it; it has a dot or a port.
_HOSTED = rf"(?:[A-Za-z0-9-]+(?:(?:\.[A-Za-z0-9-]+)+(?::[0-9]+)?|:[0-9]+)/)?{_REPO}"
_VERSION = r"[0-9][0-9A-Za-z.!+_-]*"
_PROJECT = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_EXTRAS = rf"(?:\[{_PROJECT}(?:,{_PROJECT})*\])?"
_REFERENCE = (
    r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]+(?=/))?"
    r"(?:/[a-z0-9][a-z0-9._-]*)*(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?"
)
_RELATIVE = "a relative path without `.`, `..`, empty parts or backslashes, and not under .patchkit"

NAME = Form(r"[A-Za-z0-9][A-Za-z0-9._-]*", "a name of letters, digits, dots, dashes and underscores")
STEP_ID = Form(r"[a-z0-9][a-z0-9-]*", "lower-case letters, digits and dashes, such as kda-state-indices")
SOME_TEXT = Form(r"[\s\S]*\S[\s\S]*", "some text")
SITE_PATH = Form(_PATH, _RELATIVE)
FILE_OR_FOLDER = Form(f"{_PATH}/?", _RELATIVE)
PATCH_NAME = Form(
    r"[^./\\\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]*",
    "the plain name of a file beside stack.yaml or in patches/common/",
)
REPOSITORY = Form(_HOSTED, "owner/repo")
PULL_REQUEST = Form(rf"{_HOSTED}#[1-9][0-9]*", "owner/repo#N, such as vllm-project/vllm#51682")
COMMIT = Form(r"[0-9a-f]{7,40}", "7 to 40 lower-case hex digits")
COMMIT_REF = Form(rf"{_REPO}@[0-9a-f]{{40}}", "owner/repo@ and all 40 lower-case hex digits of a commit")
SHA256 = Form(r"[0-9a-f]{64}", "a sha256: 64 lower-case hex digits")
DIGEST = Form(r"sha256:[0-9a-f]{64}", "sha256: and 64 lower-case hex digits")
REFERENCE = Form(_REFERENCE, "a container reference without a digest, which has its own key")
PLATFORM = Form(r"[a-z0-9]+/[a-z0-9_]+(?:/[a-z0-9]+)?", "a platform such as linux/amd64")
RELEASE = Form(_VERSION, "a version such as 0.33.0")
PROJECT = Form(_PROJECT + _EXTRAS, "the name of a Python package")
PINNED = Form(rf"{_PROJECT}{_EXTRAS}=={_VERSION}", "a requirement pinned with ==, such as triton==3.7.0")
INDEX = Form(r"default|https://[^\s/@]+(?:/\S*)?", "an https:// address, or `default` for the index that pip is set to")
URL = Form(r"https://[^\s/@]+/\S+", "an https:// address")
FILE_MODE = Form(r"0?[0-7]{3}", 'an octal file mode in quotes, such as "0644"')
PROGRAM = Form(r"[A-Za-z0-9][A-Za-z0-9._+-]*", "gpu, network or the name of a program")
COVER = Form(rf"{NAME.pattern}/{STEP_ID.pattern}", "IMAGE/STEP, such as nightly-cb8104839c/kda-state-indices")
DATE = Form(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", "a date such as 2026-12-31")
FINDING_CODE = Form(r"[a-z]+(?:-[a-z]+)*", "the code of a finding, such as step-uncovered")
VARIABLE = Form(r"[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable")

SitePath: TypeAlias = Annotated[str, SITE_PATH]
SomeText: TypeAlias = Annotated[str, SOME_TEXT]
Sha256: TypeAlias = Annotated[str, SHA256]
Date: TypeAlias = Annotated[str, DATE]
Argv: TypeAlias = Annotated[tuple[str, ...], NonEmpty()]
