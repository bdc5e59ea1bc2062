"""The migration state follows the models."""

from __future__ import annotations

import pytest
from django.core.management import call_command


@pytest.mark.django_db
def test_migrations__are_up_to_date() -> None:
    call_command("makemigrations", "integration", "--check", "--dry-run", verbosity=0)
