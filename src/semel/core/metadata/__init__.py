"""The metadata of a cluster: topics, configs, ids; as an image changed only by rows."""
