"""Studies: each answers one question over a range of workloads, as a table, data and a plot."""
