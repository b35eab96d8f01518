"""A library of the extra that is not installed is named with the command that brings it; nothing needs it before."""

import subprocess
import sys

import pytest

from semel.exceptions import ConfigException
from semel.schema.extra import need


def test_a_missing_library_is_named_with_the_way_to_it() -> None:
    with pytest.raises(ConfigException, match=r"Avro needs fastavro: pip install 'semel\[schema\]'"):
        need("semel_no_such_library", "fastavro", "Avro")


def test_the_registry_s_client_needs_no_library_of_the_extra() -> None:
    program = (
        "import sys, semel.schema\n"
        "semel.schema.SchemaRegistryClient('http://localhost:1')\n"
        "print(sorted({'fastavro', 'google', 'jsonschema', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
