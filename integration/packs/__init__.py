"""Connector packs: YAML documents, and the flows that their routes name."""
