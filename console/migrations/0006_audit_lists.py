"""Give every filter of the audit page an index that has its entries in the order of the trail."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("console", "0005_second_factor"),
    ]

    operations = [
        migrations.AddIndex("auditentry", models.Index(fields=["ref_id", "at", "id"], name="audit_ref_at_id")),
        migrations.RemoveIndex("auditentry", name="audit_ref_at"),
        migrations.AddIndex("auditentry", models.Index(fields=["actor_name", "at", "id"], name="audit_actor_at_id")),
        migrations.AddIndex("auditentry", models.Index(fields=["action", "at", "id"], name="audit_action_at_id")),
        migrations.AddIndex("auditentry", models.Index(fields=["outcome", "at", "id"], name="audit_outcome_at_id")),
    ]
