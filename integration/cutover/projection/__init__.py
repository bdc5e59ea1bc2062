"""The one checkpoint of a pack incarnation that ends the old projection protocol."""
