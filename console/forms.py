"""Filters and the replay form: what may be asked for, and how it is checked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.utils import timezone

from console import zones
from integration.audit.policy import check_printable, check_reason
from integration.errors import InvalidInput
from integration.states import ExecutionClass, WorkType

REASON_MAX = 500


class Filter(forms.Form):
    """A list's filter: every field optional, everything chosen shown as a chip."""

    def demand(self) -> dict[str, Any]:
        """Return what an address says, where there is no form in which a mistake could be shown.

        Raises:
            InvalidInput: A value is not valid.
        """
        if not self.is_valid():
            message = "The filter is not valid."
            raise InvalidInput(message)
        return self.cleaned_data

    def chosen(self) -> Iterator[tuple[str, str, str]]:
        """Yield (name, label, shown value) for every field that narrows the list."""
        for name, field in self.fields.items():
            value = self.cleaned_data.get(name)
            if value in (None, ""):
                continue
            shown = dict(getattr(field, "choices", ())).get(value, value)
            yield (
                name,
                str(field.label or name),
                f"{timezone.localtime(shown):%Y-%m-%d %H:%M}" if isinstance(shown, datetime) else str(shown),
            )


def _text(label: str, length: int = 255) -> forms.CharField:
    return forms.CharField(label=label, required=False, max_length=length, strip=True)


class Moment(forms.DateTimeField):
    """A time in the page's zone, given on in UTC."""

    def clean(self, value: Any) -> datetime | None:
        """Return the aware moment; one that UTC cannot name is not valid."""
        moment: datetime | None = super().clean(value)
        try:
            return moment and moment.astimezone(UTC)
        except OverflowError as error:
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid") from error


class DeadFilter(Filter):
    """What narrows the dead letters."""

    id = _text("Id or key")
    org = _text("Org", 36)
    namespace = forms.CharField(
        label="Namespace",
        required=False,
        max_length=128,
        widget=forms.TextInput(attrs={"list": "namespaces"}),
    )
    pack = _text("Pack", 128)
    provider = _text("Provider", 64)
    event_kind = _text("Event kind", 128)
    work_type = forms.ChoiceField(
        label="Work type",
        required=False,
        choices=[
            ("", "Any"),
            *((str(kind), str(kind).replace("_", " ")) for kind in WorkType),
        ],
    )
    owner = forms.ChoiceField(
        label="Owner",
        required=False,
        choices=[("", "Any"), ("work_item", "WorkItem"), ("event", "Event (legacy)")],
    )
    execution_class = forms.ChoiceField(
        label="Execution class",
        required=False,
        choices=[("", "Any"), *((str(kind), str(kind).replace("_", " ")) for kind in ExecutionClass)],
    )
    attempts = forms.IntegerField(label="Attempts, at least", required=False, min_value=0, max_value=10_000)
    source_lane = _text("Source lane")
    died_after = Moment(
        label="Died from",
        required=False,
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"}),
    )
    died_before = Moment(
        label="Died before",
        required=False,
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"}),
    )
    replayed = forms.ChoiceField(
        label="Replay",
        required=False,
        choices=[("", "Any"), ("no", "Not replayed"), ("yes", "Replayed")],
    )


class NamespaceFilter(forms.Form):
    """A page that is narrowed to one namespace by its links."""

    namespace = forms.CharField(required=False, max_length=128, strip=True)

    def namespace_or_none(self) -> str | None:
        """Return the namespace; what no namespace can be called narrows nothing."""
        return None if self.errors.get("namespace") else str(self.cleaned_data["namespace"]) or None


class GroupFilter(NamespaceFilter):
    """Which window is grouped, and of which namespace."""

    hours = forms.IntegerField(required=False, min_value=1, max_value=24 * 30)

    def window(self, *, usual: timedelta) -> timedelta:
        """Return how long the window is; the usual one where none is named that can be."""
        hours = None if self.errors.get("hours") else self.cleaned_data["hours"]
        return timedelta(hours=hours) if hours else usual


class AuditFilter(Filter):
    """What narrows the audit trail."""

    actor = _text("Who", 150)
    action = _text("Action", 64)
    outcome = forms.ChoiceField(
        label="Outcome",
        required=False,
        choices=[
            ("", "Any"),
            ("done", "Done"),
            ("refused", "Refused"),
            ("lost", "Lost"),
        ],
    )
    ref = _text("Id", 64)
    namespace = _text("Namespace", 128)
    since = Moment(
        label="From",
        required=False,
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"}),
    )
    until = Moment(
        label="Before",
        required=False,
        widget=forms.DateTimeInput(format="%Y-%m-%dT%H:%M", attrs={"type": "datetime-local"}),
    )


class ReplayForm(forms.Form):
    """What an operator sends to replay one row."""

    reason = forms.CharField(
        label="Reason",
        max_length=REASON_MAX,
        strip=True,
        widget=forms.Textarea,
        error_messages={"required": "Say why: the reason goes into the audit trail, where others read it."},
    )
    route = forms.IntegerField(required=False, min_value=0, widget=forms.HiddenInput)
    idempotency_key = forms.UUIDField(widget=forms.HiddenInput)

    def clean_reason(self) -> str:
        """Return the reason on one line, as the trail keeps it."""
        try:
            return check_reason(" ".join(str(self.cleaned_data["reason"]).split()))
        except InvalidInput as error:
            raise forms.ValidationError(error.operator_message(), code="invalid") from error


class ReasonForm(forms.Form):
    """Why; it is required."""

    reason = ReplayForm.base_fields["reason"]
    clean_reason = ReplayForm.clean_reason


class ZoneForm(forms.Form):
    """In which zone to show times."""

    tz = forms.CharField(max_length=64, strip=True, error_messages={"required": "Name a zone, such as Europe/Berlin."})

    def clean_tz(self) -> str:
        """Return the zone's name as IANA spells it."""
        name = zones.find(str(self.cleaned_data["tz"]))
        if name is None:
            message = "There is no zone of this name. Type an IANA name, such as Europe/Berlin, or UTC."
            raise forms.ValidationError(message, code="invalid")
        return name


class SavedViewForm(forms.Form):
    """What an operator calls a view, and who sees it."""

    name = forms.CharField(
        label="Name", max_length=60, strip=True, error_messages={"required": "A view needs a name, 1 to 60 characters."}
    )
    is_shared = forms.BooleanField(label="Share it", required=False)

    def clean_name(self) -> str:
        """Return the name if a list could show it as it is."""
        name = str(self.cleaned_data["name"])
        try:
            check_printable("name", name)
        except InvalidInput as error:
            raise forms.ValidationError(error.operator_message(), code="invalid") from error
        return name


class BatchForm(forms.Form):
    """What an operator sends to replay a selection in bulk."""

    reason = ReplayForm.base_fields["reason"]
    canary = forms.IntegerField(
        label="First only so many, then wait for go", required=False, min_value=0, max_value=10_000
    )
    halt_after = forms.IntegerField(
        label="Halt after so many same refusals in a row", min_value=1, max_value=1_000, initial=10
    )
    per_minute = forms.IntegerField(label="Replays a minute, at most", required=False, min_value=0, max_value=60_000)
    digest = forms.CharField(max_length=64, widget=forms.HiddenInput)
    idempotency_key = forms.UUIDField(widget=forms.HiddenInput)

    clean_reason = ReplayForm.clean_reason
