"""A million records through a bad connection and two kills, each stored once."""
