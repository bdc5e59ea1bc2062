"""Admission fences: armed, overridden and lifted."""
