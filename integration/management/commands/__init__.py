"""Management commands: parse, call a service, print; no SQL."""
