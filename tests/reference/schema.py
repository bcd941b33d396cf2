"""Schema: the JSON Schema of targets.yaml, computed from the same spec as the loader.

``python tests/reference/schema.py`` writes ``gpubuild/config/schema.json``; a test compares them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpubuild.config.keys import VERSION, document, partial_document
from gpubuild.config.spec import (
    Choice,
    Either,
    Flag,
    ListOf,
    Nothing,
    Number,
    Record,
    Spec,
    Table,
    Text,
    Whole,
)

SCHEMA_FILE = Path(__file__).parents[2] / "gpubuild" / "config" / "schema.json"
_SHARED_LINES = 5  # shorter schemas are repeated


def json_schema() -> dict[str, Any]:
    """Return the schema, draft 2020-12. What it repeats are references."""
    return _shared(full_schema(), "#", {})


def full_schema() -> dict[str, Any]:
    """Return the schema without references."""
    schema = _schema(document())
    properties = schema["properties"]
    names = {name: entry for name, entry in properties.items() if name in partial_document().keys}
    properties["profiles"]["additionalProperties"] = {
        "type": ["object", "null"],
        "properties": {name: _partial(entry) for name, entry in names.items()},
        "additionalProperties": False,
    }
    only = {"version": properties["version"], "workspace": properties["workspace"]}
    schema["anyOf"] = [
        {"required": schema.pop("required"), "not": {"required": ["workspace"]}},
        {"properties": only, "required": [*only], "additionalProperties": False},
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:gpubuild:targets:{VERSION}",
        "title": "gpubuild targets.yaml",
        **schema,
    }


def _partial(schema: dict[str, Any]) -> dict[str, Any]:
    """Return ``schema`` without required keys."""
    text = json.dumps(schema)
    if '"required"' not in text and '"minProperties"' not in text:
        return schema
    found: dict[str, Any] = {"description": schema.get("description", ""), "type": ["object", "null"]}
    if "properties" in schema:
        found["properties"] = {name: _partial(entry) for name, entry in schema["properties"].items()}
    if "propertyNames" in schema:
        found["propertyNames"] = schema["propertyNames"]
    values = schema["additionalProperties"]
    found["additionalProperties"] = _partial(values) if values else values
    return found


def _shared(schema: dict[str, Any], pointer: str, known: dict[str, str]) -> dict[str, Any]:
    """Return ``schema``, which is at ``pointer``; ``known`` are the pointers of those before, by text."""
    notes: dict[str, Any] = {name: schema[name] for name in ("description", "default") if name in schema}
    text = json.dumps({name: part for name, part in schema.items() if name not in notes}, indent=2)
    if text in known:
        return {**notes, "$ref": known[text]}
    if text.count("\n") >= _SHARED_LINES:
        known[text] = pointer
    found = dict(schema)
    for name, part in schema.items():
        at = f"{pointer}/{name}"
        if name == "properties":
            found[name] = {key: _shared(value, f"{at}/{key}", known) for key, value in part.items()}
        elif name == "anyOf":
            found[name] = [_shared(option, f"{at}/{number}", known) for number, option in enumerate(part)]
        elif name in ("items", "additionalProperties") and part:
            found[name] = _shared(part, at, known)
    return found


def schema_text() -> str:
    """Return the content of ``schema.json``."""
    return json.dumps(json_schema(), indent=2) + "\n"


def _schema(spec: Spec) -> dict[str, Any]:
    match spec:
        case Text(pattern=pattern):
            return {"type": "string", "pattern": f"^(?:{pattern})$"}
        case Choice(words=words):
            return {"enum": [str(word) for word in words]}
        case Flag():
            return {"type": "boolean"}
        case Nothing():
            return {"type": "null"}
        case Number():
            return {"type": "number"}
        case Whole(minimum=minimum, maximum=maximum):
            if minimum == maximum:
                return {"const": minimum}
            limit = {} if maximum is None else {"maximum": maximum}
            return {"type": "integer", "minimum": minimum, **limit}
        case ListOf(item=item, min_items=least, unique=unique):
            extra: dict[str, Any] = {"minItems": least} if least else {}
            if unique:
                extra["uniqueItems"] = True
            return {"type": "array", "items": _schema(item), **extra}
        case Either(options=options):
            return {"anyOf": [_schema(option) for option in options]}
        case Record():
            required = [name for name, key in spec.keys.items() if key.required]
            return {
                "type": ["object", "null"] if spec.empty else "object",
                "properties": {
                    name: {
                        "description": key.help,
                        **({} if key.default is None else {"default": key.default}),
                        **_schema(key.spec),
                    }
                    for name, key in spec.keys.items()
                },
                **({"required": required} if required else {}),
                "additionalProperties": False,
            }
        case Table():
            return {
                "type": ["object", "null"] if spec.empty else "object",
                "propertyNames": {"pattern": f"^(?:{spec.name.pattern})$"},
                **({"minProperties": spec.min_items} if spec.min_items else {}),
                "additionalProperties": _schema(spec.value),
            }


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
