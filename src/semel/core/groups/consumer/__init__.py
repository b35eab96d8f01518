"""KIP-848 groups: the coordinator assigns, members heartbeat, partitions move one by one."""
