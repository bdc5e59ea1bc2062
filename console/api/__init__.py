"""The JSON API over the same queries, rules and permissions as the pages."""
