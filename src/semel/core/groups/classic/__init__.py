"""Classic groups: members join, a leader assigns, everybody syncs. The coordinator's side."""
