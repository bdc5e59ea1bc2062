"""Statements on `_System_ConnectorProjectionProtocol`, written once per incarnation and never changed."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

INSERT_PROJECTION_PROTOCOL = Statement(
    name="INSERT_PROJECTION_PROTOCOL",
    text="""
    INSERT INTO _System_ConnectorProjectionProtocol
           (PackInstallId, ProtocolVersion, LegacyMaxOrdinal, WrittenAt, WrittenBy)
    VALUES (%(pack_install_id)s, %(protocol_version)s, %(legacy_max_ordinal)s, UTC_TIMESTAMP(6), %(written_by)s)
    """,
    returns=Returns.COUNT,
    holds=LockRank.PACK,
)
