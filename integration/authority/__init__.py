"""Who owns a row's replay, what an operator may read of it, and the replay itself."""
