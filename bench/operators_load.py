"""What one operator does at the console, for locust.

It runs in the peers' environment and imports nothing of the program. OPERATORS_FILE names a JSON file with the
`password`, the `refs` of dead rows that all of them want to replay, and where the `result` goes.
"""

from __future__ import annotations

import html
import itertools
import json
import os
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

from locust import HttpUser, between, events, task

GIVEN = json.loads(Path(os.environ["OPERATORS_FILE"]).read_text())
#: Of how many rows next in line an operator takes one: few, so that they meet.
_NEXT = 4
_NUMBERS = itertools.count()
_OUTCOMES: Counter[str] = Counter()


def fields_of(page: str) -> dict[str, str]:
    """Return the hidden fields of a page's forms."""
    found = {}
    for tag in re.findall(r"<input [^>]*type=\"hidden\"[^>]*>", page):
        attributes = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        if "name" in attributes:
            found[attributes["name"]] = html.unescape(attributes.get("value", ""))
    return found


class Operator(HttpUser):
    """Looks around, and replays what the others want to replay too."""

    wait_time = between(1, 3)

    def on_start(self) -> None:
        """Sign in."""
        self._tried = 0
        page = self.client.get("/sign-in/", name="sign-in page").text
        fields = {
            **fields_of(page),
            "username": f"operator-{next(_NUMBERS)}",
            "password": GIVEN["password"],
        }
        with self._post("/sign-in/", fields, name="sign in") as answer:
            if answer.status_code != 302:
                answer.failure(f"signing in was answered {answer.status_code}")

    @task(6)
    def list_dead(self) -> None:
        """Open the list, and often its next page."""
        page = self.client.get("/dlq/", name="dead letters").text
        older = re.search(r'href="([^"]*cursor=[^"]*)"[^>]*rel="next"|rel="next"[^>]*href="([^"]*cursor=[^"]*)"', page)
        if older and random.random() < 0.5:
            path = html.unescape(older.group(1) or older.group(2))
            self.client.get(path if path.startswith("/") else f"/dlq/{path}", name="dead letters, next page")

    @task(2)
    def narrow(self) -> None:
        """Open the list of one kind."""
        self.client.get("/dlq/?event_kind=deal.created", name="dead letters, one kind")

    @task(2)
    def groups(self) -> None:
        """Open the failure groups."""
        self.client.get("/dlq/groups/?hours=720", name="failure groups")

    @task(2)
    def overview(self) -> None:
        """Open the first page."""
        self.client.get("/", name="overview")

    @task(2)
    def items(self) -> None:
        """Open the work items."""
        self.client.get("/work/", name="work items")

    @task(4)
    def replay(self) -> None:
        """Open a row that somebody else may be replaying, and replay it if it may be."""
        refs = GIVEN["refs"][self._tried : self._tried + _NEXT]
        self._tried += 1
        if not refs:
            return
        ref = random.choice(refs)
        self.client.get(f"/dlq/{ref}/", name="a row")
        page = self.client.get(f"/dlq/{ref}/replay", name="confirm page").text
        fields = {**fields_of(page), "reason": "Stage names are fixed"}
        with self._post(f"/dlq/{ref}/replay", fields, name="replay") as answer:
            if answer.status_code == 302:
                _OUTCOMES["replayed"] += 1
                self.client.get(f"/dlq/{ref}/replayed", name="progress")
            elif answer.status_code == 409:
                _OUTCOMES["told that another was first"] += 1
                answer.success()
            else:
                answer.failure(f"a replay was answered {answer.status_code}")

    def _post(self, path: str, fields: dict[str, str], *, name: str) -> Any:
        headers = {"Origin": self.host}
        return self.client.post(path, fields, headers=headers, allow_redirects=False, catch_response=True, name=name)


@events.quitting.add_listener
def _write(environment: Any, **_: Any) -> None:
    pages = {
        entry.name: {
            "requests": entry.num_requests,
            "failures": entry.num_failures,
            "p50": entry.get_response_time_percentile(0.5),
            "p95": entry.get_response_time_percentile(0.95),
        }
        for entry in (*environment.stats.entries.values(), environment.stats.total)
    }
    errors = [f"{error.name}: {error.error}" for error in environment.stats.errors.values()]
    Path(GIVEN["result"]).write_text(json.dumps({"pages": pages, "errors": errors, "outcomes": dict(_OUTCOMES)}))
