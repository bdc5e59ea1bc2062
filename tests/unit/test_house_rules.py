"""Rules of the house that no linter knows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOMAIN = sorted((ROOT / "integration").rglob("*.py"))
L0 = [path for path in DOMAIN if "packs" not in path.relative_to(ROOT).parts]
PROVIDERS = re.compile(r"outreach|hubspot|salesforce|prospect", re.IGNORECASE)
#: How many lines a module may have, and the few that are longer and shall not grow.
LONGEST = 345
LONGER = {
    "integration/states.py": 390,
    "integration/storage/localdb.py": 360,
}
#: Where statements are written, from constant parts, and where the schema is installed.
BELOW_THE_DOOR = {"storage", "management"}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_tree__is_found():
    assert len(DOMAIN) > 40


@pytest.mark.evidence("O-10")
@pytest.mark.parametrize("path", L0, ids=relative)
def test_l0_code__names_no_provider(path: Path):
    found = [line for line in path.read_text(encoding="utf-8").splitlines() if PROVIDERS.search(line)]
    assert found == []


@pytest.mark.evidence("O-10")
@pytest.mark.parametrize("path", sorted((ROOT / "integration/storage/schema").glob("*.sql")), ids=relative)
def test_schema__names_no_provider(path: Path):
    assert PROVIDERS.search(path.read_text(encoding="utf-8")) is None


@pytest.mark.parametrize("path", DOMAIN + sorted((ROOT / "console").rglob("*.py")), ids=relative)
def test_sql__uses_nothing_that_one_of_the_databases_lacks(path: Path):
    text = path.read_text(encoding="utf-8")
    banned = re.compile(r"SKIP\s+LOCKED|FOR\s+SHARE|LOCK\s+IN\s+SHARE|\bOFFSET\s+[%\d]|select_for_update")
    assert [line for line in text.splitlines() if banned.search(line) and not is_prose(line, path)] == []


def is_prose(line: str, path: Path) -> bool:
    """Say whether a line only speaks of what is banned: a comment, or a check's own words."""
    return line.strip().startswith(("#", '"""', '"')) or path.name in {"checks.py", "base.py"}


@pytest.mark.parametrize("path", DOMAIN, ids=relative)
def test_python__builds_no_sql(path: Path):
    """SQL text is constant: no f-string, no format, no concatenation reaches a database."""
    if path.relative_to(ROOT / "integration").parts[0] in BELOW_THE_DOOR:
        return
    text = path.read_text(encoding="utf-8")
    built = re.compile(r"""(f['"]{1,3}\s*(SELECT|UPDATE|INSERT|DELETE)\b)|(text=.*\.(format|join|replace)\()""")
    assert built.search(text) is None


@pytest.mark.parametrize("path", DOMAIN + sorted((ROOT / "console").rglob("*.py")), ids=relative)
def test_module__is_short_enough_to_read(path: Path):
    """Statement modules are catalogues; every other module fits in one reading."""
    if "sql" in path.parts or "migrations" in path.parts:
        return
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGER.get(relative(path), LONGEST)
