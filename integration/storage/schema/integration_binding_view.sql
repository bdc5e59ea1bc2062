-- vintage: event_only
-- Immutable projection of one Catalog revision. CurrentKey is the incarnation while current.
CREATE TABLE IF NOT EXISTS `_System_IntegrationBindingView` (
  `BindingViewId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `OrgId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Namespace` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `PackInstallId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `CatalogRevision` BIGINT NOT NULL,
  `CatalogDigest` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `CurrentKey` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `Definition` LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `DefinitionDigest` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `PublishedAt` DATETIME(6) NOT NULL,
  `PublishedBy` VARCHAR(150) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  PRIMARY KEY (`BindingViewId`),
  UNIQUE KEY `UX_BindingView_Revision` (`PackInstallId`, `CatalogRevision`),
  UNIQUE KEY `UX_BindingView_Current` (`CurrentKey`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
