"""The app of the admin peer."""

from __future__ import annotations

from django.apps import AppConfig


class AdminPeer(AppConfig):
    """Only here is the unmanaged model registered."""

    name = "bench.peers.admin"
    label = "admin_peer"
