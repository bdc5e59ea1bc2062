"""The application of the packs that come with the program; its `flows` module holds their flows."""

from __future__ import annotations

from django.apps import AppConfig


class PacksConfig(AppConfig):
    """Give the packs their own label."""

    name = "integration.packs"
    label = "packs"
    verbose_name = "Packs"
