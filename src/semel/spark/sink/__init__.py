"""The sinks: rows of Spark into topics, exactly once.

atomic    `TopicSink`: each micro-batch is one transaction
dropin    `format("semel")`: one transaction per task, ended together
common    the rules, rows and errors of both
"""
