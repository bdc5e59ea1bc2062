"""Lists as files: CSV and JSON, streamed, capped, in the audit trail. The same rows as the pages, in the same shape."""
