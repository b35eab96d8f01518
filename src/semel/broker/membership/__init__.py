"""A broker as a member of a cluster under ZooKeeper: it obeys a controller, follows leaders elsewhere, and proposes in-sync replicas."""
