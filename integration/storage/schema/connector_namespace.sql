-- vintage: event_only
-- One row per namespace: the row that namespace-wide transitions lock first.
CREATE TABLE IF NOT EXISTS `_System_ConnectorNamespace` (
  `Namespace` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `OrgId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `CreatedAt` DATETIME(6) NOT NULL,
  PRIMARY KEY (`Namespace`),
  KEY `IX_Namespace_Org` (`OrgId`, `Namespace`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
