"""What a cluster knows of itself: topics, configs, ids; as an image changed only by rows."""
