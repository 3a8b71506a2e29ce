"""Forms from JSON Schemas: what to fill in, the value that was filled in, and the problems of a value.

Schemas come from servers and may be broken or hostile: nothing here raises for a schema, follows an address, or takes
longer than its limits allow. The SDK and `jsonschema` are not imported before something is checked.
"""
