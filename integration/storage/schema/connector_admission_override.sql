-- vintage: event_only
-- Lets one scope through an armed fence for a while.
CREATE TABLE IF NOT EXISTS `_System_ConnectorAdmissionOverride` (
  `OverrideId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `FenceId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Scope` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `ExpiresAt` DATETIME(6) NULL,
  `GrantedAt` DATETIME(6) NOT NULL,
  `GrantedBy` VARCHAR(150) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `Reason` VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `LiftedAt` DATETIME(6) NULL,
  `LiftedBy` VARCHAR(150) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  PRIMARY KEY (`OverrideId`),
  KEY `IX_AdmissionOverride_Fence` (`FenceId`, `LiftedAt`, `Scope`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
