"""Give the trail of a namespace an index that has its entries in their order."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("console", "0008_batch_places"),
    ]

    operations = [
        migrations.AddIndex(
            "auditentry", models.Index(fields=["namespace", "at", "id"], name="audit_namespace_at_id")
        ),
    ]
