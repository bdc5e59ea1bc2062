"""What somebody sends about their own account, and how it is checked."""

from __future__ import annotations

from typing import Any

from django import forms

from integration.callers.policy import LONGEST_DAYS, NAME_CHARACTERS, SCOPES


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
