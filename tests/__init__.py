"""The tests of Lockhouse."""
