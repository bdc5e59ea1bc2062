"""The Event executor of earlier builds, bounded: for packs that no forward cutover receipt has moved to WorkItems.

Nothing but its command reaches it, and it can be deleted whole: see docs/legacy.md.
"""
