"""The console through Django's test client, one module per page or action."""
