"""Records are frozen dataclasses in every respect, though their methods are shared instead of generated."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from coordinate.frozen import dataclass, replace


@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0

    @property
    def sum(self) -> int:
        return self.x + self.y


def test_a_record_is_made_by_place_and_by_name_and_defaults_fill_the_rest() -> None:
    assert Point(1, 2) == Point(y=2, x=1) == Point(1, y=2)
    assert (Point(1).y, Point(1, 2).sum) == (0, 3)


@pytest.mark.parametrize("wrong", [Point, lambda: Point(1, 2, 3), lambda: Point(1, x=1), lambda: Point(1, z=1)])
def test_a_wrong_field_is_a_type_error(wrong: object) -> None:
    with pytest.raises(TypeError):
        wrong()  # type: ignore[operator]


def test_a_record_cannot_be_changed() -> None:
    point = Point(1)
    for change in (lambda: setattr(point, "x", 2), lambda: setattr(point, "z", 2), lambda: delattr(point, "x")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()


def test_records_compare_hash_and_print_by_value() -> None:
    assert Point(1) != Point(2)
    assert Point(1) != (1, 0)
    assert len({Point(1), Point(1, 0), Point(2)}) == 2
    assert repr(Point(1)) == "Point(x=1, y=0)"


def test_a_class_may_have_a_method_of_its_own_in_place_of_a_shared_one() -> None:
    @dataclass(frozen=True)
    class Secret:
        word: str

        def __repr__(self) -> str:
            return "Secret(...)"

    assert repr(Secret("open sesame")) == "Secret(...)"


def test_the_tools_for_dataclasses_work() -> None:
    point = Point(1, 2)
    assert dataclasses.is_dataclass(point)
    assert [field.name for field in dataclasses.fields(point)] == ["x", "y"]
    assert dataclasses.replace(point, y=5) == replace(point, y=5) == Point(1, 5)
    assert dataclasses.asdict(point) == {"x": 1, "y": 2}
    assert pickle.loads(pickle.dumps(point)) == copy.deepcopy(point) == point
    match point:
        case Point(x, y):
            assert (x, y) == (1, 2)
