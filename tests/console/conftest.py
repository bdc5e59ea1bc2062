"""People who sign in, and an installation with work in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from console.models import User
from tests.support.rows import Installation

PASSWORD = "the-keeper-decides-9"


@pytest.fixture
def person(db: None) -> Callable[..., User]:
    """Make an account in some groups."""

    def make(name: str, *groups: str) -> User:
        user = User.objects.create_user(name, password=PASSWORD)
        user.groups.set(Group.objects.filter(name__in=groups))
        return user

    return make


@pytest.fixture
def signed_in(person: Callable[..., User]) -> Callable[..., Client]:
    """Return a client of a person in some groups; its forms need their tokens."""

    def make(name: str, *groups: str) -> Client:
        client = Client(enforce_csrf_checks=True)
        client.force_login(person(name, *groups))
        return client

    return make


@pytest.fixture
def viewer(signed_in: Callable[..., Client]) -> Client:
    """Return a client that may view."""
    return signed_in("vera", "Viewer")


@pytest.fixture
def replayer(signed_in: Callable[..., Client]) -> Client:
    """Return a client that may view and replay."""
    return signed_in("rolf", "Replayer")


@pytest.fixture
def auditor(signed_in: Callable[..., Client]) -> Client:
    """Return a client that may read the audit trail and nothing else."""
    return signed_in("ida", "Auditor")


@pytest.fixture
def installation(db: None) -> Installation:
    """Make a namespace with an active pack and a live route."""
    return Installation()
