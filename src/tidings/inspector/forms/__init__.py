"""Forms from JSON Schemas: what to fill in, what was filled in, and whether it is right.

| room | what is in it |
|---|---|
| `fields` | `Field`: a form as plain data |
| `forms`, `basics`, `merging`, `objects`, `choices` | `form(schema)`: the form of any schema |
| `arguments` | the same for a prompt's arguments and a resource template's variables |
| `values`, `texts` | `initial(field)`, `from_texts(field, texts)`; back: `to_texts(field, value)` |
| `pairs`, `steps` | `parse_pairs(schema, ["limit=5", …])`, for the command line |
| `checks`, `validating`, `failures` | `check(schema, value)`: what is wrong, and where |
| `words`, `places` | how limits, values and places are told |

Schemas come from servers and may be broken or hostile: nothing here raises for a schema, follows an address, or takes
longer than its limits allow.

May import: `client.masking`, `client.validation`, `client.patterns`. Never the SDK.
"""

from tidings.inspector.forms.build import FormLimits, form, prompt_form, template_form
from tidings.inspector.forms.check import check, check_output
from tidings.inspector.forms.model import Field, FieldProblem, Filled, Option, expand
from tidings.inspector.forms.pairs import parse_pairs
from tidings.inspector.forms.values import from_texts, initial, to_texts

__all__ = [
    "Field",
    "FieldProblem",
    "Filled",
    "FormLimits",
    "Option",
    "check",
    "check_output",
    "expand",
    "form",
    "from_texts",
    "initial",
    "parse_pairs",
    "prompt_form",
    "template_form",
    "to_texts",
]
