"""Answers that are not the page that was asked for: refusals, absences, failures."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.api.problems import is_api, problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one status says: what happened, what it means, what to do next."""

    title: str
    sentence: str
    next_step: str


#: The fixed texts. None of them names what exists or who may see it.
ANSWERS: dict[int, Answer] = {
    400: Answer(
        title="The request could not be read",
        sentence="A value in the address or the form is not one that this page knows. Nothing was changed.",
        next_step="Go back, or start again from the list.",
    ),
    401: Answer(
        title="Nobody is signed in",
        sentence="This needs the session or the token of an account. Nothing was changed.",
        next_step="Sign in or send a token, and ask again.",
    ),
    403: Answer(
        title="You may not do this",
        sentence="Your account does not hold the permission that this needs. Nothing was changed.",
        next_step="Reload the page you came from. If it stays so, ask an administrator.",
    ),
    404: Answer(
        title="Nothing here",
        sentence="There is no such page or row in what you may see.",
        next_step="Check the id, or search for it in the dead letters.",
    ),
    405: Answer(
        title="Not in this way",
        sentence="This address does not accept that method. Nothing was changed.",
        next_step="Open the page and use its buttons.",
    ),
    409: Answer(
        title="It changed in the meantime",
        sentence="The row is not what it was when you looked. Your request wrote nothing.",
        next_step="Reload it and look again.",
    ),
    422: Answer(
        title="A value is not valid",
        sentence="A value in the request is not one that this accepts. Nothing was changed.",
        next_step="Correct it and send it again.",
    ),
    429: Answer(
        title="Too many requests",
        sentence="More came than may. Nothing was changed.",
        next_step="Ask again in a moment.",
    ),
    500: Answer(
        title="Lockhouse failed to answer",
        sentence="Something went wrong here. The audit trail tells whether a change was made.",
        next_step="Try again. If it stays so, look into the service's log at this time.",
    ),
    503: Answer(
        title="The database is busy",
        sentence="It did not answer in time. Nothing was changed.",
        next_step="Try again in a moment.",
    ),
}


def say(
    request: HttpRequest,
    status: int,
    *,
    code: str,
    sentence: str = "",
    next_step: str = "",
) -> HttpResponse:
    """Return the designed answer for a status: a page, a fragment, or a problem document to the API.

    Args:
        request: The request; an htmx request gets the fragment.
        status: The HTTP status.
        code: The stable code, shown small.
        sentence: A fixed sentence in place of the status's own.
        next_step: What to do, in place of the status's own.

    Returns:
        A response with that status.
    """
    answer = ANSWERS.get(status, ANSWERS[500])
    if is_api(request):
        return problem(
            status,
            code=code,
            title=answer.title,
            detail=sentence or answer.sentence,
            next_step=next_step or answer.next_step,
        )
    if "console" not in settings.LOCKHOUSE_SURFACES:
        # A page leads to others, and this process serves none.
        return HttpResponse(f"{answer.title}\n", status=status, content_type="text/plain; charset=utf-8")
    context = {
        "status": status,
        "code": code,
        "title": answer.title,
        "sentence": sentence or answer.sentence,
        "next_step": next_step or answer.next_step,
        "bare": True,
    }
    template = "console/_answer.html" if _is_fragment(request) else "console/answer.html"
    return render(request, template, context, status=status)


def _is_fragment(request: HttpRequest) -> bool:
    htmx = getattr(request, "htmx", None)
    return htmx is not None and bool(htmx) and not htmx.boosted
