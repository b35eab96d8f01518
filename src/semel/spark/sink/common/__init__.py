"""The rules, rows and errors both sinks share; neither sink imports the other."""
