"""A model of Kafka's controller: what it knows, what it decides, what it sends and writes; for stories, and to compare with."""
