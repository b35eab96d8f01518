"""Every supported request and response: one file per API, declared in the language of `core.wire.schema`.

The header of each file says what a version changed: `+` a field it added, `-` one it dropped. The package imports
nothing: `core.wire.registry` loads a file when its API is first used.
"""
