"""The shells around core's coordinators: they load, append, wait and answer."""
