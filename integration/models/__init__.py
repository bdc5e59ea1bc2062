"""Unmanaged, read-only models of the system tables: what pages and API schemas may reach, and no more.

Payloads, bodies, tokens, leases' owners and failure texts have columns that no model maps; the domain reads
them by named statement. Tables that no page shows (processes, handoffs, runtime) have no model.
"""

from __future__ import annotations

from integration.models.catalog import (
    ConnectorNamespace,
    ConnectorPackInstall,
    ConnectorRoute,
    IntegrationBindingView,
)
from integration.models.cutover import (
    ConnectorAdmissionFence,
    ConnectorAdmissionOverride,
    ConnectorCutoverReceipt,
    ConnectorLegacyOutcomeReceipt,
    ConnectorProjectionProtocol,
    ConnectorRollbackFence,
)
from integration.models.effects import (
    ExternalDeliveryAttempt,
    IntegrationEffectAttempt,
    IntegrationExternalCommand,
    IntegrationRemoteLink,
)
from integration.models.events import ConnectorEvent
from integration.models.principals import (
    IntegrationAuthorizationGrant,
    IntegrationPrincipalBinding,
    IntegrationQuotaWindow,
    IntegrationRemoteSubscription,
)
from integration.models.receipts import ConnectorIngressReceipt
from integration.models.work import (
    ConnectorExecutionAttempt,
    ConnectorWorkItem,
    IntegrationWorkItem,
)

__all__ = [
    "ConnectorAdmissionFence",
    "ConnectorAdmissionOverride",
    "ConnectorCutoverReceipt",
    "ConnectorEvent",
    "ConnectorExecutionAttempt",
    "ConnectorIngressReceipt",
    "ConnectorLegacyOutcomeReceipt",
    "ConnectorNamespace",
    "ConnectorPackInstall",
    "ConnectorProjectionProtocol",
    "ConnectorRollbackFence",
    "ConnectorRoute",
    "ConnectorWorkItem",
    "ExternalDeliveryAttempt",
    "IntegrationAuthorizationGrant",
    "IntegrationBindingView",
    "IntegrationEffectAttempt",
    "IntegrationExternalCommand",
    "IntegrationPrincipalBinding",
    "IntegrationQuotaWindow",
    "IntegrationRemoteLink",
    "IntegrationRemoteSubscription",
    "IntegrationWorkItem",
]
