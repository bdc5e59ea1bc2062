"""Tables of what signs somebody in beside a password: the second factor, and who somebody is at the provider."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class SecondFactor(models.Model):
    """What an account's authenticator app and this console both know; written by `console.factors` alone."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="second_factor"
    )
    #: Sealed under the payload keys.
    secret = models.BinaryField()
    #: Since when sign-ins need a code; empty until the first code confirmed the secret.
    enrolled_at = models.DateTimeField(null=True)
    #: The time step of the last code that was used.
    last_step = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        """Name whose it is."""
        return f"second factor of {self.pk}"


class RecoveryCode(models.Model):
    """One code that stands in for the app once; the row goes with its use."""

    #: Digest of the account and the code.
    id = models.CharField(primary_key=True, max_length=64, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="recovery_codes")

    def __str__(self) -> str:
        """Name whose it is."""
        return f"recovery code of {self.user_id}"


class ProviderIdentity(models.Model):
    """Somebody whom a sign-in provider knows and who signs in to an account; written by `console.identities` alone."""

    #: Digest of the issuer and the subject.
    id = models.CharField(primary_key=True, max_length=64, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="provider_identities")

    def __str__(self) -> str:
        """Name whose it is."""
        return f"provider identity of {self.user_id}"
