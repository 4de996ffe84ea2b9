"""Values: frozen objects with slots, made from keywords; what `dataclass(frozen=True, slots=True, kw_only=True)` makes.

A bundle is compiled anew at every start. There `dataclasses`, with `inspect` and all that it needs, and the methods that
it writes as text and compiles for each class, would take longer than the work of a command; so the classes that every
command needs are values. `replace`, `fields` and `asdict` of `dataclasses` take them like their own.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import replace
    from typing import Any

    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Any:
        """Tell type checkers, and nobody else, that subclasses are like dataclasses."""
        return lambda cls: cls

    def replace(value: Any, /, **changes: object) -> Any:
        """A copy of `value` with `changes`."""
        return type(value)(**{**{name: getattr(value, name) for name in value._fields}, **changes})


__all__ = ["Value", "replace"]


class _Class(type):
    """Makes the annotated names of a class its slots, and what is assigned to them their defaults."""

    _fields: tuple[str, ...]
    _defaults: dict[str, object]

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> _Class:
        fields = tuple(body.get("__annotations__", ()))
        defaults = {field: body.pop(field) for field in fields if field in body}
        return super().__new__(
            cls, name, bases, {**body, "__slots__": fields, "_fields": fields, "_defaults": defaults}
        )


class _DataclassFields:
    """`__dataclass_fields__` of a class, made when somebody asks for it."""

    def __get__(self, _: object, owner: _Class) -> dict[str, Any]:
        from dataclasses import field, make_dataclass

        given = [
            (name, object, field(default=owner._defaults[name])) if name in owner._defaults else (name, object)  # noqa: SLF001
            for name in owner._fields
        ]
        made: Any = make_dataclass(owner.__name__, given, kw_only=True)
        return dict(made.__dataclass_fields__)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Value(metaclass=_Class):
    """What every value can do."""

    __dataclass_fields__ = _DataclassFields()

    def __init__(self, **given: object) -> None:
        cls = type(self)
        if given.keys() != set(cls._fields):
            given = {**cls._defaults, **given}
            wrong = given.keys() ^ set(cls._fields)
            if wrong:
                raise TypeError(f"{cls.__name__}: missing or unknown: {', '.join(sorted(wrong))}")
        for name, value in given.items():
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self)._fields)

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in type(self)._fields))

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={getattr(self, name)!r}" for name in type(self)._fields)
        return f"{type(self).__name__}({given})"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: cannot delete {name!r}")
