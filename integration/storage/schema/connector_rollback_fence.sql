-- vintage: event_only
-- The set of WorkItems one inbound rollback handed over. OpenKey is the incarnation while the
-- fence is not closed, so that a pack has one.
CREATE TABLE IF NOT EXISTS `_System_ConnectorRollbackFence` (
  `FenceId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `PackInstallId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `OwnerGeneration` BIGINT NOT NULL,
  `State` VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `OpenKey` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `ItemCount` BIGINT NOT NULL DEFAULT 0,
  `SetDigest` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `ReceiptId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `OpenedAt` DATETIME(6) NOT NULL,
  `OpenedBy` VARCHAR(150) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `SealedAt` DATETIME(6) NULL,
  `ClosedAt` DATETIME(6) NULL,
  PRIMARY KEY (`FenceId`),
  UNIQUE KEY `UX_RollbackFence_Open` (`OpenKey`),
  KEY `IX_RollbackFence_Pack` (`PackInstallId`, `OwnerGeneration`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
