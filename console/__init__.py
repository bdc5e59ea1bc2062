"""The Django project and the operator console: HTTP, templates and accounts, never domain rules."""
