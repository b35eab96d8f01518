"""The impure parts: clock, files, network and tasks, each real or simulated from a seed."""
