"""Keep the filters that operators name."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import integration.values


class Migration(migrations.Migration):

    dependencies = [
        ("console", "0006_audit_lists"),
    ]

    operations = [
        migrations.CreateModel(
            name="SavedView",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=integration.values.new_id,
                        editable=False,
                        max_length=36,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("page", models.CharField(max_length=16)),
                ("name", models.CharField(max_length=60)),
                ("query", models.TextField()),
                ("is_shared", models.BooleanField()),
                ("created_at", models.DateTimeField()),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="saved_views",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["page", "is_shared", "name", "id"], name="saved_view_shared"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("owner", "page", "name"), name="saved_view_name"),
                ],
            },
        ),
    ]
