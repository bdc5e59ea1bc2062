-- vintage: event_only
-- Written by the compatibility owner with each terminal transition of an Event. A second, different
-- outcome is kept as a conflict on the same row.
CREATE TABLE IF NOT EXISTS `_System_ConnectorLegacyOutcomeReceipt` (
  `EventId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `WorkType` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `RollbackFenceId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `ReceiptVersion` INT NOT NULL,
  `Outcome` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Digest` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `ConflictDigest` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `ConflictAt` DATETIME(6) NULL,
  `WrittenAt` DATETIME(6) NOT NULL,
  `ProjectedAt` DATETIME(6) NULL,
  PRIMARY KEY (`EventId`, `WorkType`),
  -- Null in ProjectedAt comes first: what the projector still owes a fence.
  KEY `IX_LegacyOutcome_Fence` (`RollbackFenceId`, `ProjectedAt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
