"""Gunicorn with a guard taken away: a store whose answer never came counts as stored."""

from __future__ import annotations

from gunicorn.app.wsgiapp import run

from batteries import hook

if __name__ == "__main__":
    hook.install(hook.BelieveLost())
    run()
