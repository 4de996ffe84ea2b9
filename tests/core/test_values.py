"""Values behave as `dataclass(frozen=True, slots=True, kw_only=True)` makes its classes behave."""

from __future__ import annotations

import dataclasses

import pytest

from patchkit.core.values import Value, replace


class Point(Value):
    """One made by patchkit."""

    x: int
    y: tuple[int, ...] = ()
    name: str = "p"

    @property
    def twice(self) -> int:
        return 2 * self.x


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One made by the library."""

    x: int
    y: tuple[int, ...] = ()
    name: str = "p"


GIVEN = [{"x": 1}, {"x": 1, "y": (1,)}, {"name": "q", "x": 0}, {"x": 2, "y": (), "name": ""}]


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_what_is_given_and_what_is_not(given: dict[str, object]) -> None:
    point, model = Point(**given), Model(**given)  # type: ignore[arg-type]
    assert [point.x, point.y, point.name] == [model.x, model.y, model.name]
    assert repr(point).removeprefix("Point") == repr(model).removeprefix("Model")
    assert point.twice == 2 * point.x
    assert not hasattr(point, "__dict__")


def test_equality_is_by_class_and_fields() -> None:
    assert [[Point(**a) == Point(**b) for a in GIVEN] for b in GIVEN] == [  # type: ignore[arg-type]
        [Model(**a) == Model(**b) for a in GIVEN]
        for b in GIVEN  # type: ignore[arg-type]
    ]
    assert len({Point(x=1), Point(x=1, y=()), Point(x=2)}) == 2
    assert Point(x=1) != Model(x=1)


@pytest.mark.parametrize("given", [{}, {"y": ()}, {"x": 1, "z": 2}, {"x": 1, "_fields": ()}], ids=str)
def test_missing_and_unknown_fields_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        Model(**given)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^Point: missing or unknown: [xz_]"):
        Point(**given)  # type: ignore[arg-type]


def test_only_keywords() -> None:
    with pytest.raises(TypeError):
        Point(1)  # type: ignore[call-arg]


def test_frozen() -> None:
    point = Point(x=1)
    for name in ("x", "name", "other"):
        with pytest.raises(AttributeError, match="frozen"):
            setattr(point, name, 5)
        with pytest.raises(AttributeError, match="frozen"):
            delattr(point, name)
    assert point == Point(x=1)


@pytest.mark.parametrize("how", [replace, dataclasses.replace])
def test_replace(how: object) -> None:
    point = Point(x=1, name="q")
    assert how(point, y=(3,)) == Point(x=1, y=(3,), name="q")  # type: ignore[operator]
    assert point == Point(x=1, name="q")
    with pytest.raises(TypeError):
        how(point, z=1)  # type: ignore[operator]


def test_the_library_takes_them_like_its_own() -> None:
    assert dataclasses.asdict(Point(x=1, y=(2,))) == dataclasses.asdict(Model(x=1, y=(2,)))
    mine, theirs = dataclasses.fields(Point(x=1)), dataclasses.fields(Model(x=1))
    assert [(f.name, f.default, f.kw_only) for f in mine] == [(f.name, f.default, f.kw_only) for f in theirs]
    assert dataclasses.is_dataclass(Point)


def test_matching_by_name() -> None:
    match Point(x=1, y=(5,)):
        case Point(x=1, y=(five,)):
            assert five == 5
        case _:
            pytest.fail("it is one")
