-- vintage: event_only
-- One terminal admission fact per handoff key. Scope, outbox identity and digest are validation
-- attributes, never part of the uniqueness.
CREATE TABLE IF NOT EXISTS `_System_IntegrationHandoff` (
  `EffectHandoffKey` VARCHAR(512) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `OrgId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `AppInstallationId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `RuntimeCapabilityId` VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `RuntimeWorkBindingDigest` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `RuntimeOutboxId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `PayloadDigest` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Admission` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `CommandId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `RejectionReceipt` LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `QuarantinedAt` DATETIME(6) NULL,
  `QuarantineCode` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `QuarantinedDigest` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `QuarantinedCount` INT NOT NULL DEFAULT 0,
  `DecidedAt` DATETIME(6) NOT NULL,
  PRIMARY KEY (`EffectHandoffKey`),
  UNIQUE KEY `UX_Handoff_Command` (`CommandId`),
  KEY `IX_Handoff_Outbox` (`RuntimeOutboxId`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
