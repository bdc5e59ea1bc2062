"""Note which namespaces a bulk replay touches, those that were made before too."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("console", "0007_saved_views"),
    ]

    operations = [
        migrations.CreateModel(
            name="ReplayBatchPlace",
            fields=[
                ("id", models.CharField(editable=False, max_length=36, primary_key=True, serialize=False)),
                ("batch_id", models.CharField(max_length=36)),
                ("namespace", models.CharField(db_collation="utf8mb4_bin", max_length=128)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("batch_id", "namespace"), name="batch_place"),
                ],
            },
        ),
        migrations.RunSQL(
            """
            INSERT INTO console_replaybatchplace (id, batch_id, namespace)
            SELECT UUID(), found.batch_id, found.namespace
              FROM (SELECT DISTINCT batch_id, COALESCE(namespace, '') COLLATE utf8mb4_bin AS namespace
                      FROM console_replaybatchitem) AS found
            """,
            migrations.RunSQL.noop,
        ),
    ]
