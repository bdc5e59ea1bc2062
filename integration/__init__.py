"""The domain of Lockhouse: ownership, replay, ranges, fences and effects; no HTTP, no templates."""
