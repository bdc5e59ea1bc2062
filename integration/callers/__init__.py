"""Who calls the API: tokens and their pace, and the answers that are kept for a repeated request."""
