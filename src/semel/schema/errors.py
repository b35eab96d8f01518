"""The errors of a schema registry's client.

    SchemaRegistryError               any refusal: status, error code, URL
    ├── SchemaNotFoundError           no such id, subject or version
    ├── IncompatibleSchemaError       the subject's compatibility level refuses the schema
    └── RegistryUnreachableError      no URL answered in time; the same call may succeed later

Keys and values that do not fit their schema raise `SerializationException`.
"""

from semel.exceptions import KafkaException


class SchemaRegistryError(KafkaException):
    """The registry refused a question, or answered as a registry does not."""

    def __init__(
        self, message: str, *, http_status_code: int = -1, error_code: int = -1, url: str = ""
    ) -> None:
        super().__init__(message)
        self.http_status_code = http_status_code
        """-1 where nothing was answered."""
        self.error_code = error_code
        """The registry's own code, as 40403; the status where it gives none."""
        self.url = url


class SchemaNotFoundError(SchemaRegistryError):
    """The registry has no such schema, subject or version."""


class IncompatibleSchemaError(SchemaRegistryError):
    """The schema breaks the compatibility level of its subject."""


class RegistryUnreachableError(SchemaRegistryError):
    """No URL of the registry gave an answer."""

    retriable = True
