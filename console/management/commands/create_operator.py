"""`manage.py create_operator`: make an account that can sign in to the console, or bring it up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.contrib.auth.models import Group
from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.models import User


class Command(BaseCommand):
    """Create or update one operator account; running it again changes nothing."""

    help = "Create an operator account, or bring its password and groups up to date."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the account's name, where its password stands, and its groups."""
        parser.add_argument("--username", required=True)
        parser.add_argument(
            "--password-file",
            required=True,
            type=Path,
            help="File whose first line is the password.",
        )
        parser.add_argument(
            "--group",
            action="append",
            default=[],
            help="Group to join; may be repeated.",
        )
        parser.add_argument("--staff", action="store_true", help="May open the Django admin.")
        parser.add_argument("--superuser", action="store_true", help="May do everything.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the account.

        Raises:
            CommandError: the file cannot be read or is empty, or a group does not exist.
        """
        password = _read_password(options["password_file"])
        names = sorted(set(options["group"]))
        groups = list(Group.objects.filter(name__in=names))
        missing = sorted(set(names) - {group.name for group in groups})
        if missing:
            known = ", ".join(Group.objects.order_by("name").values_list("name", flat=True))
            raise CommandError(f"No such group: {', '.join(missing)}. Groups are: {known}.")
        user, created = User.objects.get_or_create(username=options["username"])
        if not user.check_password(password):
            user.set_password(password)
        user.is_active = True
        user.is_staff = user.is_staff or options["staff"] or options["superuser"]
        user.is_superuser = user.is_superuser or options["superuser"]
        user.save()
        user.groups.add(*groups)
        self.stdout.write(f"Operator {user.username} {'created' if created else 'is up to date'}.")


def _read_password(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise CommandError(f"The password file cannot be read: {error.strerror}.") from error
    password = lines[0].strip() if lines else ""
    if not password:
        raise CommandError("The password file is empty.")
    return password
