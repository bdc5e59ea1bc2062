"""The only way to the database: one transaction door, typed locks, named statements."""
