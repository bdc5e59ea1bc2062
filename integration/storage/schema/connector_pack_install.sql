-- vintage: event_only
-- One row per incarnation of an installed connector pack. The row is the anchor that serializes
-- admission and replay. ActiveKey is namespace and pack name while active, null otherwise, so that
-- one incarnation of a pack is active. Definition holds the canonical bytes CatalogDigest is taken of.
CREATE TABLE IF NOT EXISTS `_System_ConnectorPackInstall` (
  `PackInstallId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `OrgId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `AppInstallationId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Namespace` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `PackName` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `PackVersion` VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `Incarnation` INT NOT NULL,
  `Status` VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `ActiveKey` VARCHAR(320) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `NextLaneOrdinal` BIGINT NOT NULL DEFAULT 1,
  `OwnershipEpoch` BIGINT NOT NULL DEFAULT 0,
  `CatalogRevision` BIGINT NOT NULL DEFAULT 0,
  `CatalogDigest` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Definition` LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `InstalledAt` DATETIME(6) NOT NULL,
  `ActivatedAt` DATETIME(6) NULL,
  `RetiredAt` DATETIME(6) NULL,
  PRIMARY KEY (`PackInstallId`),
  UNIQUE KEY `UX_PackInstall_Active` (`ActiveKey`),
  UNIQUE KEY `UX_PackInstall_Incarnation` (`Namespace`, `PackName`, `Incarnation`),
  -- The catalog cache asks for the newest revision, once a second in every process.
  KEY `IX_PackInstall_Revision` (`CatalogRevision`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
