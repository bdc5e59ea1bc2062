"""What a manager of access sends, and how it is checked."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms

from console.access.policy import GRANTABLE, Terms, check_terms
from console.access.why import NEEDS
from console.forms import ReasonForm
from console.models import User
from integration.authority.values import Ref
from integration.errors import InvalidInput

#: For how long, in seconds; empty for until somebody revokes it.
_TIMES = (
    ("86400", "1 day"),
    ("3600", "1 hour"),
    ("604800", "7 days"),
    ("2592000", "30 days"),
    ("7776000", "90 days"),
    ("", "Until somebody revokes it"),
)


class Account(forms.CharField):
    """An account's name, given on as the account."""

    def clean(self, value: Any) -> User | None:
        """Return the account; one that is not there is not valid."""
        name = super().clean(value)
        if not name:
            return None
        user = User.objects.filter(username=name).first()
        if user is None:
            message = "There is no account of this name."
            raise forms.ValidationError(message, code="invalid")
        return user


class GrantTerms(forms.Form):
    """What is given to whom, where and until when; it stands in the address of the page that shows the effect."""

    user = Account(label="Account", max_length=150, widget=forms.TextInput(attrs={"list": "accounts"}))
    permission = forms.ChoiceField(label="May", choices=list(GRANTABLE.items()))
    namespace = forms.CharField(
        label="Namespace",
        required=False,
        max_length=128,
        strip=True,
        widget=forms.TextInput(attrs={"list": "namespaces"}),
    )
    org_id = forms.CharField(label="Org", required=False, max_length=36, strip=True)
    expires = forms.ChoiceField(label="For how long", required=False, choices=_TIMES, initial="86400")

    def clean_expires(self) -> timedelta | None:
        """Return after which time it ends by itself."""
        seconds = self.cleaned_data["expires"]
        return timedelta(seconds=int(seconds)) if seconds else None

    def clean(self) -> dict[str, Any]:
        """Check the terms together."""
        if not self.errors:
            try:
                check_terms(self.terms(), self.cleaned_data["expires"])
            except InvalidInput as error:
                self.add_error(str(error.data_fields["field"]), error.operator_message())
        return self.cleaned_data

    def terms(self) -> Terms:
        """Return what is given, and where."""
        return Terms(
            permission=self.cleaned_data["permission"],
            org_id=self.cleaned_data["org_id"] or None,
            namespace=self.cleaned_data["namespace"] or None,
        )

    def lasting(self) -> str:
        """Return the chosen time in words."""
        return dict(_TIMES)[self.data.get("expires", "")].lower()


class GrantForm(ReasonForm):
    """Why, and the request's name: sent twice, it is done once."""

    grant_id = forms.UUIDField(widget=forms.HiddenInput)


class WhyForm(forms.Form):
    """Whose action, which, and maybe on which row."""

    user = Account(label="Account", max_length=150, widget=forms.TextInput(attrs={"list": "accounts"}))
    action = forms.ChoiceField(label="Action", choices=[(key, GRANTABLE[key]) for key in NEEDS])
    ref = forms.CharField(label="WorkId or EventId", required=False, max_length=60, strip=True)

    def clean_ref(self) -> Ref | None:
        """Return the row, if one is named."""
        text = self.cleaned_data["ref"]
        try:
            return Ref.parse(text) if text else None
        except InvalidInput as error:
            raise forms.ValidationError(error.operator_message(), code="invalid") from error
