"""The Django admin: accounts and groups, nothing of the connector work."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin

from console.models import User

admin.site.register(User, UserAdmin)
admin.site.site_header = "Lockhouse accounts"
admin.site.site_title = "Lockhouse accounts"
admin.site.index_title = "Who may sign in, and what they may do"
