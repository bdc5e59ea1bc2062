"""What somebody sends about their own account, and how it is checked."""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.password_validation import password_validators_help_texts
from django.core.validators import MaxLengthValidator

from integration.callers.policy import LONGEST_DAYS, NAME_CHARACTERS, SCOPES

#: What the sign-in page's own field takes.
PASSWORD_CHARACTERS: Final = 256


class TokenForm(forms.Form):
    """A new API token: its name, what it may, how long."""

    name = forms.CharField(label="What it is for", max_length=NAME_CHARACTERS, strip=True)
    scopes = forms.MultipleChoiceField(
        label="What it may do", widget=forms.CheckboxSelectMultiple, error_messages={"required": "Choose one at least."}
    )
    days = forms.IntegerField(label="Days until it runs out", min_value=1, max_value=LONGEST_DAYS, initial=90)

    def __init__(self, *args: Any, held: frozenset[str], **kwargs: Any) -> None:
        """Offer the scopes that the account could give.

        Args:
            *args: As for every form.
            held: The account's permission keys.
            **kwargs: As for every form.
        """
        super().__init__(*args, **kwargs)
        self.fields["scopes"].choices = [(key, words) for key, words in SCOPES.items() if key in held]  # type: ignore[attr-defined]


class CodeForm(forms.Form):
    """A code of the authenticator app, or a recovery code."""

    code = forms.CharField(
        label="Code",
        max_length=64,
        strip=True,
        widget=forms.TextInput(
            attrs={"autocomplete": "one-time-code", "autocapitalize": "none", "spellcheck": "false"}
        ),
        error_messages={"required": "Type the code that the app shows."},
    )


class PasswordForm(PasswordChangeForm):
    """The password of now, and the next one twice, held against the rules of a password."""

    #: The fields' own words, in the form's order.
    LABELS: Final = {
        "old_password": "Your password of now",
        "new_password1": "New password",
        "new_password2": "New password again",
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Word the fields as the other pages do, and take no more than the sign-in page takes."""
        super().__init__(*args, **kwargs)
        for name, label in self.LABELS.items():
            field = self.fields[name]
            field.label = label
            field.help_text = " ".join(password_validators_help_texts()) if name == "new_password1" else ""
            field.error_messages["required"] = "Type a password here."
            field.validators.append(MaxLengthValidator(PASSWORD_CHARACTERS, "Use 256 characters at the most."))
            field.widget.attrs |= {"maxlength": str(PASSWORD_CHARACTERS), "autofocus": False}
