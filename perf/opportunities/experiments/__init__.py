"""Experiments that run representative jobs with and without cooperation with the provider."""
