"""Views of the operator console, one module per noun."""
