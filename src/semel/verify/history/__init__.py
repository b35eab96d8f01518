"""The events of a run, as plain values; judged once the run is over."""
