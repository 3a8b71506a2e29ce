"""Forms from JSON Schemas: what to fill in, the value that was filled in, and the problems of a value.

| file | content |
|---|---|
| `model` | `Field`: a form as plain data; places and problems |
| `build`, `flatten`, `words` | `form(schema)`; the schemas of a prompt and of a resource template |
| `values` | `initial(field)`, `from_texts(field, texts)`, and back: `to_texts(field, value)` |
| `pairs` | `parse_pairs(schema, ["limit=5", …])`, for the command line |
| `check` | `check(schema, value)`: the problems of a value |

Schemas come from servers and may be broken or hostile: nothing here raises for a schema, follows an address, or takes
longer than its limits allow. The SDK and `jsonschema` are not imported before something is checked.
"""

from tidings.inspector.forms.build import FormLimits, form, prompt_schema, template_schema
from tidings.inspector.forms.check import check, check_result
from tidings.inspector.forms.model import Field, FieldProblem, Filled, expand
from tidings.inspector.forms.pairs import parse_pairs
from tidings.inspector.forms.values import from_texts, initial, to_texts

__all__ = [
    "Field",
    "FieldProblem",
    "Filled",
    "FormLimits",
    "check",
    "check_result",
    "expand",
    "form",
    "from_texts",
    "initial",
    "parse_pairs",
    "prompt_schema",
    "template_schema",
    "to_texts",
]
