"""The shop: orders, a bad connection, a pipeline on Spark, kills of everything, and the proof that each order counts once."""
