"""The values users give to clients and take from them: names of `semel`, and what admin answers are made of."""
