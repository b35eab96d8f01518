"""Classic groups: members join, a leader assigns, all members sync. The coordinator's side."""
