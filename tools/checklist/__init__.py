"""The mission's checklist: its rows, and which test of this repository decides which. No part of the product."""
