"""Defaulting and validation of CustomResourceDefinitions, and their conditions."""
