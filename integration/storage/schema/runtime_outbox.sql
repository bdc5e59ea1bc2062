-- vintage: event_only
-- Runtime-owned: written in the transaction of the local change. Payload is sealed.
CREATE TABLE IF NOT EXISTS `_System_RuntimeOutbox` (
  `OutboxId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `OrgId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `AppInstallationId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `RuntimeCapabilityId` VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `RuntimeWorkBindingDigest` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `EffectHandoffKey` VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Operation` VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `SubjectKind` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `SubjectId` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Payload` LONGBLOB NOT NULL,
  `PayloadDigest` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `State` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `RunAfter` DATETIME(6) NOT NULL,
  `Attempt` INT NOT NULL DEFAULT 0,
  `ClaimToken` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `ClaimedUntil` DATETIME(6) NULL,
  `OwnershipEpoch` BIGINT NOT NULL DEFAULT 0,
  `CommandId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `Receipt` LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `CreatedAt` DATETIME(6) NOT NULL,
  `DecidedAt` DATETIME(6) NULL,
  `RetainUntil` DATETIME(6) NULL,
  PRIMARY KEY (`OutboxId`),
  UNIQUE KEY `UX_RuntimeOutbox_Handoff` (`EffectHandoffKey`),
  KEY `IX_RuntimeOutbox_Claim` (`State`, `RunAfter`, `OutboxId`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
