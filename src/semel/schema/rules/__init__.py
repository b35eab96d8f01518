"""The rules of schemas in records, without I/O: bytes in front of a payload, names of subjects, words of a registry."""
