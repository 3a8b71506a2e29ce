"""What the form of a schema looks like, whatever the schema is."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.inspector.forms.build import FormLimits, form, prompt_schema, template_schema
from tidings.inspector.forms.model import Field, expand
from tidings.inspector.forms.values import from_texts, initial

KEYWORDS = [
    "type", "properties", "items", "anyOf", "oneOf", "allOf", "$ref", "$defs", "enum", "const", "required", "if",
    "then", "else", "not", "default", "examples", "format", "additionalProperties", "patternProperties",
    "prefixItems", "minimum", "exclusiveMinimum", "maxLength", "minItems", "title", "description",
    "dependentRequired", "dependencies", "nullable", "enumNames", "contains", "discriminator", "definitions",
    "$dynamicRef", "pattern", "uniqueItems",
]  # fmt: skip
WORDS = [*KEYWORDS, "string", "object", "array", "integer", "null", "boolean", "a", "#", "#/$defs/a", "#/properties/a"]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(max_size=5)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=30,
)


def only(schema: object) -> Field:
    """The form of the property `it` of an object."""
    made = form({"type": "object", "properties": {"it": schema}, "$defs": {}})
    (field,) = made.fields
    return field


@given(JSON)
def test_any_json_has_a_form_that_is_json(schema: Any) -> None:
    made = form(schema)
    assert isinstance(made, Field)
    json.dumps(made.to_json())
    initial(made)


@given(JSON, JSON)
def test_whatever_is_typed_into_whatever_form_gives_a_value_or_problems(schema: Any, typed: Any) -> None:
    filled = from_texts(form(schema), typed)
    assert all(problem.message for problem in filled.problems)


def test_properties_keep_their_order_and_say_which_are_needed() -> None:
    made = form({"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "number"}}, "required": ["a"]})
    assert [(each.name, each.kind, each.required) for each in made.fields] == [
        ("b", "text", False),
        ("a", "number", True),
    ]


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "text"),
        ({"type": "string", "format": "textarea"}, "multiline"),
        ({"type": "string", "default": "a\nb"}, "multiline"),
        ({"type": "integer"}, "integer"),
        ({"type": "number"}, "number"),
        ({"type": "boolean"}, "boolean"),
        ({"enum": ["a", "b"]}, "enum"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, "multi"),
        ({"type": "array", "items": {"type": "array", "items": {"type": "string"}}}, "array"),
        ({"properties": {}}, "object"),
        ({"items": {}}, "array"),
        ({"minLength": 2}, "json"),
        ({"const": 5}, "const"),
        ({"type": "null"}, "const"),
        ({"type": ["string", "integer"]}, "choice"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "choice"),
        (True, "json"),
        ({}, "json"),
        ({"type": "strng"}, "json"),
        ({"$ref": "https://example.com/schema.json"}, "json"),
        ({"$ref": "#/$defs/gone"}, "json"),
        (False, "json"),
        (5, "json"),
    ],
)
def test_each_schema_gets_the_kind_that_fits_it(schema: object, kind: str) -> None:
    assert only(schema).kind == kind


def test_what_is_not_understood_says_why() -> None:
    assert 'unknown type "strng"' in only({"type": "strng"}).reason
    assert "nothing is fetched" in only({"$ref": "https://example.com/schema.json"}).reason
    assert "is not in it" in only({"$ref": "#/$defs/gone"}).reason
    assert only(False).reason == "the schema allows no value here"


@pytest.mark.parametrize(
    "schema",
    [
        {"oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
        {"anyOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
        {"enum": ["r", "g"], "enumNames": ["Red", "Green"]},
    ],
)
def test_options_have_titles_however_those_are_written(schema: dict[str, Any]) -> None:
    field = only({"type": "string", **schema})
    assert field.kind == "enum"
    assert [(option.value, option.label) for option in field.options] == [("r", "Red"), ("g", "Green")]


def test_null_among_the_alternatives_makes_a_field_nullable() -> None:
    for schema in (
        {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None, "title": "Limit"},
        {"type": ["integer", "null"], "minimum": 1, "default": None, "title": "Limit"},
    ):
        field = only(schema)
        assert (field.kind, field.nullable, field.title, field.hints) == ("integer", True, "Limit", ("at least 1",))
        assert field.has_default
        assert field.default is None
    assert only({"enum": ["a", None]}).nullable


def test_what_pydantic_refers_to_is_found_and_called_by_the_name_of_its_place() -> None:
    made = form(
        {
            "$defs": {"Color": {"enum": ["red", "green"], "title": "Color", "type": "string", "description": "A hue."}},
            "properties": {
                "front": {"$ref": "#/$defs/Color"},
                "back": {"allOf": [{"$ref": "#/$defs/Color"}], "default": "red", "description": "Behind."},
            },
            "type": "object",
        }
    )
    front, back = made.fields
    assert (front.kind, front.label, front.description) == ("enum", "front", "A hue.")
    assert (back.kind, back.default, back.description) == ("enum", "red", "Behind.")


def test_a_choice_at_the_root_has_the_fields_of_each_alternative() -> None:
    shapes = [
        {"properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}, "required": ["kind", "radius"]},
        {"properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"]},
    ]
    made = form({"type": "object", "properties": {"label": {"type": "string"}}, "anyOf": shapes})
    assert made.kind == "choice"
    assert [branch.name for branch in made.fields] == ["circle", "square"]
    assert [[each.name for each in branch.fields] for branch in made.fields] == [
        ["kind", "radius", "label"],
        ["kind", "side", "label"],
    ]


def test_alternatives_that_only_say_what_is_needed_are_a_note() -> None:
    properties = {"id": {"type": "string"}, "name": {"type": "string"}}
    made = form({"type": "object", "properties": properties, "anyOf": [{"required": ["id"]}, {"required": ["name"]}]})
    assert (made.kind, len(made.fields), made.notes) == ("object", 2, ("One of these is needed: id, or name.",))


def test_alternatives_of_the_same_name_are_told_apart() -> None:
    field = only(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "string", "maxLength": 3},
                {"type": "array", "items": {"type": "integer"}},
            ]
        }
    )
    assert [branch.name for branch in field.fields] == ["text 1", "text 2", "list of integer"]


def test_a_schema_that_contains_itself_can_be_opened_again_and_again() -> None:
    node = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}}}
    made = form({"$defs": {"Node": node}, "$ref": "#/$defs/Node"})
    (following,) = made.fields
    for _ in range(5):
        assert (following.kind, following.nullable) == ("ref", True)
        opened = expand(made, following)
        assert (opened.kind, opened.name, opened.nullable) == ("object", "next", True)
        (following,) = opened.fields


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
    ],
)
def test_a_schema_that_is_nothing_but_itself_is_a_form_all_the_same(schema: dict[str, Any]) -> None:
    made = form(schema)
    json.dumps(made.to_json())
    assert from_texts(made, "5").value == 5


def test_parts_are_merged_and_what_the_whole_says_counts() -> None:
    part = {"type": "integer", "minimum": 5, "maximum": 90, "title": "Theirs"}
    field = only({"maximum": 50, "title": "Ours", "allOf": [part]})
    assert (field.kind, field.title, field.hints) == ("integer", "Ours", ("at least 5", "at most 50"))


def test_further_keys_and_their_patterns_are_told() -> None:
    field = only(
        {
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "patternProperties": {"^x-": {"type": "string"}},
        }
    )
    assert field.extra is not None
    assert field.extra.kind == "integer"
    patterned = only(
        {"type": "object", "patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False}
    )
    assert patterned.extra is not None
    assert (patterned.extra.kind, patterned.closed) == ("text", False)
    assert only({"type": "object", "additionalProperties": False}).closed
    assert form({"type": "object"}).extra is None


def test_tuples_have_a_field_for_each_place() -> None:
    for schema in (
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
        {"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": False},
    ):
        field = only(schema)
        assert [each.kind for each in field.fields] == ["text", "integer"]
        assert field.items is None


def test_fields_that_a_condition_adds_are_shown() -> None:
    made = form(
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "if": {"properties": {"a": {"const": "x"}}},
            "then": {"properties": {"c": {"type": "integer"}}, "required": ["c"]},
        }
    )
    assert [(each.name, each.required) for each in made.fields] == [("a", False), ("b", False), ("c", False)]


@pytest.mark.parametrize(
    ("name", "schema", "secret"),
    [
        ("password", {}, True),
        ("apiKey", {}, True),
        ("github_token", {}, True),
        ("note", {"format": "password"}, True),
        ("max_tokens", {}, False),
        ("keyword", {}, False),
        ("author", {}, False),
    ],
)
def test_what_is_plainly_a_secret_is_not_to_be_seen(name: str, schema: dict[str, Any], *, secret: bool) -> None:
    (field,) = form({"type": "object", "properties": {name: {"type": "string", **schema}}}).fields
    assert field.secret is secret


def test_a_schema_of_great_depth_ends_in_a_field_for_json() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(1_000):
        schema = {"type": "object", "properties": {"a": schema}}
    field = form(schema)
    depth = 0
    while field.fields:
        (field,) = field.fields
        depth += 1
    assert field.kind == "json"
    assert depth < 30


def test_a_schema_that_doubles_at_each_level_is_cut() -> None:
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for level in range(1, 40):
        ref = {"$ref": f"#/$defs/d{level - 1}"}
        definitions[f"d{level}"] = {"type": "object", "properties": {"a": ref, "b": ref}, "allOf": [ref, ref]}
    made = form({"$defs": definitions, "$ref": "#/$defs/d39"}, FormLimits(fields=300))
    assert len(json.dumps(made.to_json())) < 1_000_000


def test_a_prompts_arguments_are_texts() -> None:
    made = form(
        prompt_schema([{"name": "topic", "description": "Of what", "required": True}, {"name": "tone"}, "junk", {}])
    )
    assert [(each.name, each.kind, each.required) for each in made.fields] == [
        ("topic", "text", True),
        ("tone", "text", False),
    ]
    assert form(prompt_schema(None)).fields == ()


def test_a_templates_variables_are_found_once_and_those_of_the_query_may_be_left_out() -> None:
    made = form(template_schema("x://{host}/{+path}{?q,lang*}{&page}{#part:3}/{host}/{bad name}"))
    assert [(each.name, each.required) for each in made.fields] == [
        ("host", True), ("path", True), ("q", False), ("lang", False), ("page", False), ("part", False),
    ]  # fmt: skip


def test_forms_and_the_catalog_are_imported_without_the_sdk() -> None:
    program = (
        "import sys, tidings.inspector.forms, tidings.inspector.catalog\n"
        "slow = {'mcp', 'mcp_types', 'jsonschema', 'pydantic', 'httpx2', 'anyio'}\n"
        "sys.exit(', '.join(slow & {name.partition('.')[0] for name in sys.modules}) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("schema", "hints"),
    [
        (
            {"type": "integer", "minimum": 1, "exclusiveMaximum": 9, "multipleOf": 2},
            ("at least 1", "less than 9", "a multiple of 2"),
        ),
        ({"type": "string", "minLength": 1, "pattern": "^a"}, ("at least 1 character", "matches ^a")),
        (
            {"type": "array", "minItems": 2, "maxItems": 1, "uniqueItems": True},
            ("at least 2 entries", "at most 1 entry", "no entry twice"),
        ),
        ({"type": "string", "format": "date"}, ("a date, such as 2026-07-28",)),
        ({"type": "object", "minProperties": 3}, ("at least 3 keys",)),
    ],
)
def test_limits_are_told_in_plain_words(schema: dict[str, Any], hints: tuple[str, ...]) -> None:
    assert only(schema).hints == hints


def test_alternatives_are_called_by_what_they_are() -> None:
    branches: list[Any] = [
        {"$ref": "#/$defs/Address"},
        {"const": "auto"},
        {"enum": ["a", "b", "c", "d"]},
        {"type": "boolean"},
        {"type": "string", "format": "date"},
        {"type": "object", "properties": {"x": {}, "y": {}}},
        {"type": "string", "title": "Free text"},
        {"type": "string", "format": "markdown"},
        {"type": "array"},
        {},
    ]
    made = form({"$defs": {"Address": {"type": "object", "properties": {}}}, "anyOf": branches})
    assert [branch.name for branch in made.fields] == [
        "Address", "auto", "a | b | c …", "true or false", "date", "object with x, y", "Free text", "text", "list",
        "any JSON",
    ]  # fmt: skip


def test_options_have_descriptions_and_reach_the_page() -> None:
    options = [{"const": "a", "description": "The first."}, {"const": 5, "description": "A number."}]
    field = only({"oneOf": options, "title": "Which"})
    assert field.to_json()["options"] == [
        {"value": "a", "label": "a", "description": "The first."},
        {"value": 5, "label": "5", "description": "A number."},
    ]
    assert field.to_json()["title"] == "Which"


def test_properties_that_several_parts_have_are_merged() -> None:
    made = form(
        {
            "allOf": [
                {"properties": {"a": {"type": "number"}}, "required": ["a"]},
                {"properties": {"a": {"minimum": 3}, "b": {"enum": [1, 2]}}, "required": ["b"]},
            ]
        }
    )
    first, second = made.fields
    assert (first.kind, first.hints, first.required) == ("number", ("at least 3",), True)
    assert [option.value for option in second.options] == [1, 2]


def test_a_form_that_is_too_large_says_so_where_it_ends() -> None:
    made = form({"properties": {name: {"type": "string"} for name in "abcd"}}, FormLimits(fields=3))
    assert [each.reason for each in made.fields] == [
        "",
        "",
        "the form has too many fields",
        "the form has too many fields",
    ]
    wide = form({"properties": {f"p{number}": {"type": "string"} for number in range(10_000)}})
    assert (wide.kind, wide.reason) == ("json", "the form has too many fields")
    many = form({"anyOf": [{"type": "string", "maxLength": number} for number in range(300)]})
    assert len(many.fields) == 100
    assert many.notes == ("200 further alternatives are not shown.",)


def test_what_is_needed_but_not_described_is_a_field_for_json() -> None:
    (field,) = form({"type": "object", "required": ["a"]}).fields
    assert (field.name, field.kind, field.required) == ("a", "json", True)
