-- vintage: event_only
-- The last input admitted under the old protocol, per incarnation. Written once, never advanced.
CREATE TABLE IF NOT EXISTS `_System_ConnectorProjectionProtocol` (
  `PackInstallId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `ProtocolVersion` INT NOT NULL,
  `LegacyMaxOrdinal` BIGINT NOT NULL,
  `WrittenAt` DATETIME(6) NOT NULL,
  `WrittenBy` VARCHAR(150) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  PRIMARY KEY (`PackInstallId`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
