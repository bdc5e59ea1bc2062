"""The catalog: pack documents, their incarnations and routes, and the views that other contexts read."""
