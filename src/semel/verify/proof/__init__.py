"""A proof on a running system: a workload under faults, what its clients saw, and a judgement of that alone."""
