"""The mission checklist: its rows, and which test decides which."""
