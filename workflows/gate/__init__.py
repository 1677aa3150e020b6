"""Whether a new version of a program is worse than the last one, by how much, and why."""
