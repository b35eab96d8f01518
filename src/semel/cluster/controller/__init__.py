"""The controller's shell: it stands for election, plays the machine's events on ZooKeeper, and sends its requests."""
