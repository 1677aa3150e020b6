"""Serving of a language model: requests, the times of steps, continuous batching, figures."""
