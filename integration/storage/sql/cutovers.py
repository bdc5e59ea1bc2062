"""Statements on `_System_ConnectorCutoverReceipt`, which is only ever appended to."""

from __future__ import annotations

from integration.storage.statements import LockRank, Returns, Statement

NEWEST_CUTOVER_RECEIPT = Statement(
    name="NEWEST_CUTOVER_RECEIPT",
    text="""
    SELECT ReceiptId, Direction, OwnerGeneration, ProofDigest
      FROM _System_ConnectorCutoverReceipt
     WHERE PackInstallId = %(pack_install_id)s
     ORDER BY OwnerGeneration DESC
     LIMIT 1
    """,
    returns=Returns.ROW,
)

# A pack has as many as its work changed hands.
LIST_CUTOVER_RECEIPTS = Statement(
    name="LIST_CUTOVER_RECEIPTS",
    text="""
    SELECT ReceiptId, PackInstallId, Direction, OwnerGeneration, Proof, ProofDigest, PreviousReceiptId, WrittenAt,
           WrittenBy
      FROM _System_ConnectorCutoverReceipt
     WHERE PackInstallId = %(pack_install_id)s
     ORDER BY OwnerGeneration
    """,
    returns=Returns.ROWS,
)

# The time is the database's, read in the same transaction: the proof repeats it.
INSERT_CUTOVER_RECEIPT = Statement(
    name="INSERT_CUTOVER_RECEIPT",
    text="""
    INSERT INTO _System_ConnectorCutoverReceipt
           (ReceiptId, PackInstallId, Direction, OwnerGeneration, Proof, ProofDigest, PreviousReceiptId, WrittenAt,
            WrittenBy)
    VALUES (%(receipt_id)s, %(pack_install_id)s, %(direction)s, %(owner_generation)s, %(proof)s, %(proof_digest)s,
            %(previous_receipt_id)s, %(written_at)s, %(written_by)s)
    """,
    returns=Returns.COUNT,
    holds=LockRank.PACK,
)
