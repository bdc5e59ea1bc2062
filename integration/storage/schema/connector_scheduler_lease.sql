-- vintage: event_only
-- Pack-wide lease of the Event executor; no WorkItem claim reads it.
CREATE TABLE IF NOT EXISTS `_System_ConnectorSchedulerLease` (
  `PackInstallId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `LeaseName` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `LeaseOwner` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `LeaseToken` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `LeaseUntil` DATETIME(6) NULL,
  `OwnershipEpoch` BIGINT NOT NULL DEFAULT 0,
  `UpdatedAt` DATETIME(6) NOT NULL,
  PRIMARY KEY (`PackInstallId`, `LeaseName`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
