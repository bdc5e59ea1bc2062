-- vintage: event_only
-- Capacity of one window of one quota scope; reserved by a guarded update of the row.
CREATE TABLE IF NOT EXISTS `_System_IntegrationQuotaWindow` (
  `QuotaKey` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `WindowStart` DATETIME(6) NOT NULL,
  `WindowSeconds` INT NOT NULL,
  `OrgId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Provider` VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `BindingId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `EndpointClass` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `ProviderQuotaKey` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `Capacity` BIGINT NOT NULL,
  `Reserved` BIGINT NOT NULL DEFAULT 0,
  `Refused` BIGINT NOT NULL DEFAULT 0,
  `ThrottledUntil` DATETIME(6) NULL,
  `CreatedAt` DATETIME(6) NOT NULL,
  `UpdatedAt` DATETIME(6) NOT NULL,
  PRIMARY KEY (`QuotaKey`, `WindowStart`),
  KEY `IX_Quota_Org` (`OrgId`, `WindowStart`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
