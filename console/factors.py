"""The second factor of an account: a code of an authenticator app (RFC 6238), or one of ten recovery codes.

The app's secret is sealed like a payload; of a recovery code only a digest is stored, since it is random enough to be
compared by one. A code is good once: the step that it belongs to only ever rises, by one guarded write.
"""

from __future__ import annotations

import base64
import secrets
import time
from typing import Final

from django.db.models.functions import Now
from django_otp.oath import TOTP

from console.models import User
from console.people import account_fact
from console.sign_in_models import RecoveryCode, SecondFactor
from integration import errors
from integration.audit.service import record_in, run_recording
from integration.ingress.crypto import SealedColumn, open_sealed, row_aad, seal
from integration.storage.db import Tx
from integration.values import Actor, digest_parts

_SECRET_BYTES: Final = 20
#: A clock may be so many steps of 30 s wrong.
_TOLERANCE: Final = 1
_DIGITS: Final = 6
RECOVERY_CODES: Final = 10
_RECOVERY_BYTES: Final = 10


def is_enrolled(user_id: int) -> bool:
    """Return whether signing in to this account needs a code."""
    return SecondFactor.objects.filter(pk=user_id, enrolled_at__isnull=False).exists()


def begin(user: User) -> str:
    """Return a new secret to be put into an app, in base32; until a code confirms it nothing needs one.

    Raises:
        Refused: The account has a second factor already.
    """
    secret = secrets.token_bytes(_SECRET_BYTES)
    sealed = seal(secret, row_aad(SealedColumn.SECOND_FACTOR, str(user.pk)))
    draft = {"secret": sealed, "last_step": 0}
    # A code may confirm the draft before this at any moment: what signs in is never written over.
    is_renewed = SecondFactor.objects.filter(pk=user.pk, enrolled_at__isnull=True).update(**draft) == 1
    if not is_renewed and not SecondFactor.objects.get_or_create(pk=user.pk, defaults=draft)[1]:
        raise errors.Refused("The account has a second factor already; nothing was changed.")
    return base64.b32encode(secret).decode()


def drafted(user_id: int) -> str | None:
    """Return the secret that waits to be confirmed, in base32; None when there is none."""
    factor = SecondFactor.objects.filter(pk=user_id, enrolled_at__isnull=True).first()
    return None if factor is None else base64.b32encode(_secret_of(factor)).decode()


def address_of(user: User, secret: str) -> str:
    """Return the address that an app reads from a picture or a link."""
    return f"otpauth://totp/Lockhouse:{user.get_username()}?secret={secret}&issuer=Lockhouse"


def confirm(user: User, code: str, *, actor: Actor) -> tuple[str, ...]:
    """Demand a code from every later sign-in, once the app has shown that it can make one.

    Args:
        user: The account.
        code: What the app shows.
        actor: Who asks: the account itself.

    Returns:
        Ten recovery codes, which nobody can read again.

    Raises:
        InvalidInput: The code is not right, or there is no secret that waits.
    """
    factor = SecondFactor.objects.filter(pk=user.pk, enrolled_at__isnull=True).first()
    step = None if factor is None else _step_of(_secret_of(factor), code, after=factor.last_step)
    if step is None:
        raise errors.InvalidInput("That is not the code that the app shows now.", field="code")
    codes = tuple(_new_recovery_code() for _ in range(RECOVERY_CODES))

    def unit(tx: Tx) -> bool:
        drafts = SecondFactor.objects.filter(pk=user.pk, enrolled_at__isnull=True, last_step__lt=step)
        if drafts.update(enrolled_at=Now(), last_step=step) != 1:
            return False
        RecoveryCode.objects.filter(user_id=user.pk).delete()
        RecoveryCode.objects.bulk_create(RecoveryCode(pk=_digest(user.pk, code), user_id=user.pk) for code in codes)
        record_in(tx, account_fact("second_factor_set", user.pk, actor))
        return True

    if not run_recording(unit, name="factors.confirm"):
        raise errors.InvalidInput("That code was used already; wait for the next one.", field="code")
    return codes


def accept(user_id: int, code: str, *, actor: Actor) -> bool:
    """Say whether a code is right, and use it up.

    Args:
        user_id: The account, whose password was right.
        code: What the app shows, or a recovery code; spaces and hyphens do not count.
        actor: Who signs in; the trail tells of a recovery code that was used.
    """
    text = "".join(code.split()).replace("-", "").lower()
    factor = SecondFactor.objects.filter(pk=user_id, enrolled_at__isnull=False).first()
    if factor is None or not text.isascii():
        return False
    if len(text) == _DIGITS and text.isdecimal():
        step = _step_of(_secret_of(factor), text, after=factor.last_step)
        return step is not None and _use_up(user_id, step)

    def unit(tx: Tx) -> bool:
        used, _ = RecoveryCode.objects.filter(pk=_digest(user_id, text)).delete()
        if used:
            record_in(tx, account_fact("recovery_code_used", user_id, actor))
        return bool(used)

    return run_recording(unit, name="factors.accept")


def remove(user_id: int, *, actor: Actor) -> bool:
    """Let an account sign in by its password alone again; False if it did already.

    Args:
        user_id: The account.
        actor: The account itself, or whoever keeps accounts.
    """

    def unit(tx: Tx) -> bool:
        RecoveryCode.objects.filter(user_id=user_id).delete()
        removed, _ = SecondFactor.objects.filter(pk=user_id).delete()
        if removed:
            record_in(tx, account_fact("second_factor_removed", user_id, actor))
        return bool(removed)

    return run_recording(unit, name="factors.remove")


def _use_up(user_id: int, step: int) -> bool:
    return SecondFactor.objects.filter(pk=user_id, last_step__lt=step).update(last_step=step) == 1


def _secret_of(factor: SecondFactor) -> bytes:
    return open_sealed(bytes(factor.secret), row_aad(SealedColumn.SECOND_FACTOR, str(factor.pk)))


def _step_of(secret: bytes, code: str, *, after: int) -> int | None:
    """Return the step whose code it is, of now and its neighbours, and not one that was used."""
    text = "".join(code.split())
    if not (text.isascii() and text.isdecimal() and len(text) == _DIGITS):
        return None
    app = TOTP(secret, digits=_DIGITS)
    app.time = time.time()
    return int(app.t()) if app.verify(int(text), tolerance=_TOLERANCE, min_t=after + 1) else None


def _new_recovery_code() -> str:
    text = base64.b32encode(secrets.token_bytes(_RECOVERY_BYTES)).decode().lower()
    return "-".join(text[start : start + 4] for start in range(0, len(text), 4))


def _digest(user_id: int, code: str) -> str:
    return digest_parts("recovery", str(user_id), code.replace("-", ""))
