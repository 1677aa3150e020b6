"""Predictions against measured step times: the cells, the flows, the scores, the plot."""
