"""What an operator sends to arm, override or lift a fence, and how it is checked."""

from __future__ import annotations

from datetime import timedelta

from django import forms

from console.forms import ReplayForm
from integration.audit.policy import check_reason
from integration.cutover.fences.policy import check_scope
from integration.errors import InvalidInput
from integration.ingress.policy import EVERY_SCOPE

#: For how long, in seconds; empty for until somebody lifts it.
_TIMES = (
    ("", "Until somebody lifts it"),
    ("900", "15 minutes"),
    ("3600", "1 hour"),
    ("14400", "4 hours"),
    ("86400", "1 day"),
    ("604800", "7 days"),
)


class _Terms(forms.Form):
    """A scope and a time to end in."""

    scope = forms.CharField(label="Event kind", required=False, max_length=128, strip=True)
    expires = forms.ChoiceField(label="For how long", required=False, choices=_TIMES)

    def clean_scope(self) -> str:
        """Return the scope; nothing stands for every event kind."""
        try:
            return check_scope(str(self.cleaned_data["scope"]) or EVERY_SCOPE)
        except InvalidInput as error:
            raise forms.ValidationError(error.operator_message(), code="invalid") from error

    def clean_expires(self) -> timedelta | None:
        """Return after which time it ends by itself."""
        seconds = self.cleaned_data["expires"]
        return timedelta(seconds=int(seconds)) if seconds else None


class FenceTerms(_Terms):
    """What a fence is to stop, and until when; it stands in the address of the page that shows the effect."""

    namespace = forms.CharField(
        label="Namespace", max_length=128, strip=True, widget=forms.TextInput(attrs={"list": "namespaces"})
    )
    field_order = ["namespace", "scope", "expires"]

    def lasting(self) -> str:
        """Return the chosen time in words."""
        return dict(_TIMES)[self.data.get("expires", "")].lower()


class OverrideForm(_Terms):
    """What is let through, for how long, and why."""

    reason = ReplayForm.base_fields["reason"]
    clean_reason = ReplayForm.clean_reason


class LiftForm(forms.Form):
    """Why, if that is to be said."""

    reason = forms.CharField(required=False, max_length=500, strip=True, widget=forms.Textarea)

    def clean_reason(self) -> str:
        """Return the reason on one line, or nothing."""
        text = " ".join(str(self.cleaned_data["reason"]).split())
        try:
            return check_reason(text) if text else ""
        except InvalidInput as error:
            raise forms.ValidationError(error.operator_message(), code="invalid") from error
