"""The addresses of the console: nouns, with actions beneath them."""

from __future__ import annotations

from django.conf import settings
from django.contrib import admin
from django.urls import URLPattern, URLResolver, path

from console.api.urls import urls as api_urls
from console.views import (
    access,
    account,
    audit,
    batches,
    cutovers,
    dead,
    errors,
    exports,
    fences,
    groups,
    health,
    hooks,
    lanes,
    overview,
    provider,
    receipts,
    replays,
    reports,
    saved,
    session,
    work,
    zone,
)

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
]

if "ingress" in settings.LOCKHOUSE_SURFACES:
    urlpatterns += [path("hooks/<str:namespace>/<str:route_key>", hooks.receive, name="hook")]

if "console" in settings.LOCKHOUSE_SURFACES:
    urlpatterns += [
        path("favicon.ico", session.favicon, name="favicon"),
        path("csp-report", reports.receive, name="csp-report"),
        path("sign-in/", session.sign_in, name="sign-in"),
        path("sign-in/code", session.sign_in_code, name="sign-in-code"),
        path("sign-in/provider", provider.go, name="sign-in-provider"),
        path("sign-in/provider/back", provider.back, name="sign-in-provider-back"),
        path("sign-out/", session.sign_out, name="sign-out"),
        path("zone/", zone.choose, name="zone"),
        path("", overview.show, name="overview"),
        path("dlq/", dead.list_rows, name="dlq"),
        path("dlq/groups/", groups.list_rows, name="groups"),
        path("dlq/export", exports.dead, name="dlq-export"),
        path("dlq/views/", saved.list_rows, name="views"),
        path("dlq/views/new", saved.create, name="view-new"),
        path("dlq/views/<str:view_id>/delete", saved.delete, name="view-delete"),
        path("dlq/<str:ref>/", dead.show, name="dead"),
        path("dlq/<str:ref>/json", dead.download, name="dead-json"),
        path("dlq/<str:ref>/replay", replays.confirm, name="replay"),
        path("dlq/<str:ref>/replayed", replays.progress, name="replayed"),
        path("batches/", batches.list_rows, name="batches"),
        path("batches/new", batches.create, name="batch-new"),
        path("batches/<str:batch_id>/", batches.show, name="batch"),
        path("batches/<str:batch_id>/go", batches.go, name="batch-go"),
        path("batches/<str:batch_id>/pause", batches.pause, name="batch-pause"),
        path("batches/<str:batch_id>/resume", batches.resume, name="batch-resume"),
        path("batches/<str:batch_id>/cancel", batches.cancel, name="batch-cancel"),
        path("work/", work.list_rows, name="work"),
        path("work/<str:work_id>/", work.show, name="work-item"),
        path("work/<str:work_id>/cancel", work.cancel_item, name="work-cancel"),
        path("receipts/", receipts.list_rows, name="receipts"),
        path("receipts/<str:receipt_id>/", receipts.show, name="receipt"),
        path("fences/", fences.list_rows, name="fences"),
        path("fences/new", fences.arm, name="fence-new"),
        path("fences/<str:fence_id>/", fences.show, name="fence"),
        path("fences/<str:fence_id>/lift", fences.lift, name="fence-lift"),
        path("fences/<str:fence_id>/override", fences.override, name="fence-override"),
        path("fences/overrides/<str:override_id>/lift", fences.lift_override, name="override-lift"),
        path("lanes/", lanes.list_rows, name="lanes"),
        path("cutovers/", cutovers.list_rows, name="cutovers"),
        path("cutovers/receipts/<str:cutover_receipt_id>/", cutovers.show_receipt, name="cutover-receipt"),
        path("cutovers/receipts/<str:cutover_receipt_id>/proof", cutovers.download_proof, name="cutover-proof"),
        path("cutovers/<str:pack_install_id>/", cutovers.show, name="cutover"),
        path("cutovers/<str:pack_install_id>/verify", cutovers.verify, name="cutover-verify"),
        path("cutovers/<str:pack_install_id>/obstacles", cutovers.obstacles, name="cutover-obstacles"),
        path("cutovers/<str:pack_install_id>/dry-run", cutovers.dry_run, name="cutover-dry-run"),
        path("audit/", audit.list_rows, name="audit"),
        path("account/", account.show, name="account"),
        path("account/tokens/<str:token_id>/revoke", account.revoke, name="token-revoke"),
        path("account/password", account.password, name="password"),
        path("account/second-factor", account.second_factor, name="second-factor"),
        path("access/", access.list_rows, name="access"),
        path("access/new", access.create, name="grant-new"),
        path("access/why", access.why, name="access-why"),
        path("access/<str:grant_id>/", access.show, name="grant"),
        path("access/<str:grant_id>/confirm", access.confirm, name="grant-confirm"),
        path("access/<str:grant_id>/revoke", access.revoke, name="grant-revoke"),
        path("audit/export", exports.audit, name="audit-export"),
        path("api/v1/", api_urls),
        # Before the site's own: its form asks for no code.
        path("admin/login/", session.to_sign_in, name="admin-sign-in"),
        path("admin/", admin.site.urls),
    ]

handler400 = errors.bad_request
handler403 = errors.permission_denied
handler404 = errors.not_found
handler500 = errors.server_error
