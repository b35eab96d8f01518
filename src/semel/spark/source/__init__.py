"""The source: `spark.read` and `spark.readStream` with `format("semel")`.

Role.   `batch_reader` and `stream_reader` plan on the driver; `reading` decodes in tasks. Read `planning` first.
Rules.  `offsets`, `ranges` and `narrowing` are pure: offsets of a checkpoint come from them and must stay readable.
"""
