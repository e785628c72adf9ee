# SPDX-License-Identifier: GPL-2.0-only
"""The output of commands with --json. All output that is read here is compared with the schema."""

import base64
import json
import os

import jsonschema

from support.program import REPOSITORY

SCHEMA = os.path.join(REPOSITORY, "docs", "json-schema.json")


def strict(schema):
    """The schema without room for members that it does not list."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: strict(part) for name, part in schema.items()}
    if made.get("type") == "object" and "properties" in made:
        made["additionalProperties"] = False
    return made


def load(schema=SCHEMA):
    with open(schema, encoding="utf-8") as stream:
        return strict(json.load(stream))


VALIDATOR = jsonschema.Draft202012Validator(load())


def lines(result):
    """All objects that a run printed, one a line."""
    text = result.raw.decode("utf-8")
    assert text.endswith("\n"), str(result)
    found = [json.loads(line) for line in text[:-1].split("\n")]
    problem = jsonschema.exceptions.best_match(VALIDATOR.iter_errors(found))
    assert not problem, f"{result}\n{problem}"
    end = found[-1]
    assert end["exit_code"] == result.code and end["ok"] == (result.code == 0), str(result)
    return found


def document(result):
    """The one object that a run printed."""
    found = lines(result)
    assert len(found) == 1, str(result)
    return found[0]


def items(result):
    """The items that a run listed, without its first and its last line."""
    found = lines(result)
    assert len(found) >= 2, str(result)
    return found[1:-1]


def end(result):
    """The last line of a run, with its errors."""
    return lines(result)[-1]


def exact(record, name):
    """The bytes of a member."""
    if f"{name}_base64" in record:
        return base64.b64decode(record[f"{name}_base64"], validate=True)
    return record[name].encode()
