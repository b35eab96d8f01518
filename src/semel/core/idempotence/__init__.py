"""What makes a retry harmless: sequences, producer windows, a partition's producers, their snapshot."""
