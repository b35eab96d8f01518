"""Everything that is not pure: clock, files, network, tasks, each real or simulated from a seed."""
