"""SimGrid as a network simulator: an independent implementation of flows that share links."""
