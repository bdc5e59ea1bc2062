-- vintage: event_only
-- Immutable rule: event kind to flow, work type, lanes, execution class. LiveKey is namespace and
-- event kind while live, null once swept, so that one active pack owns a source scope.
CREATE TABLE IF NOT EXISTS `_System_ConnectorRoute` (
  `RouteId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `PackInstallId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `EventKind` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `RouteVersion` INT NOT NULL,
  `Provider` VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `WorkType` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `ExecutionClass` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `FlowName` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `FlowVersion` VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `CompanionPackName` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `CompanionPackVersion` VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `Status` VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `LiveKey` VARCHAR(320) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `Definition` LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `CreatedAt` DATETIME(6) NOT NULL,
  `SweptAt` DATETIME(6) NULL,
  PRIMARY KEY (`RouteId`),
  UNIQUE KEY `UX_Route_Live` (`LiveKey`),
  UNIQUE KEY `UX_Route_Version` (`PackInstallId`, `EventKind`, `RouteVersion`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
