-- vintage: event_only
-- Stops materialization and replay, never receipt storage. Scope is '*' or an event kind.
CREATE TABLE IF NOT EXISTS `_System_ConnectorAdmissionFence` (
  `FenceId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Namespace` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `Scope` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `ExpiresAt` DATETIME(6) NULL,
  `ArmedAt` DATETIME(6) NOT NULL,
  `ArmedBy` VARCHAR(150) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `Reason` VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `LiftedAt` DATETIME(6) NULL,
  `LiftedBy` VARCHAR(150) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  PRIMARY KEY (`FenceId`),
  -- Null in LiftedAt comes first: what is armed is one short range, whatever was lifted before.
  KEY `IX_AdmissionFence_Armed` (`Namespace`, `LiftedAt`, `ExpiresAt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
