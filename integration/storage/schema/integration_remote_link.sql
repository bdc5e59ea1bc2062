-- vintage: event_only
-- The single owner of local/remote identity. LocalKey and RemoteKey are set while the link is live,
-- so that a record has one counterpart in each direction.
CREATE TABLE IF NOT EXISTS `_System_IntegrationRemoteLink` (
  `RemoteLinkId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `OrgId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Namespace` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `Provider` VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `BindingId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `BindingGeneration` BIGINT NOT NULL,
  `LocalObject` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `LocalId` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `RemoteObject` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `RemoteId` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `LocalKey` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `RemoteKey` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `CreateSlotId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `State` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `OwnershipEpoch` BIGINT NOT NULL DEFAULT 0,
  `RemoteDeletedAt` DATETIME(6) NULL,
  `SuspendedAt` DATETIME(6) NULL,
  `SuspendedReason` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `RetiredAt` DATETIME(6) NULL,
  `ReplacedByRemoteLinkId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `CreatedAt` DATETIME(6) NOT NULL,
  `UpdatedAt` DATETIME(6) NOT NULL,
  PRIMARY KEY (`RemoteLinkId`),
  UNIQUE KEY `UX_RemoteLink_Local` (`LocalKey`),
  UNIQUE KEY `UX_RemoteLink_Remote` (`RemoteKey`),
  UNIQUE KEY `UX_RemoteLink_CreateSlot` (`CreateSlotId`),
  -- History of one record, retired links included; ambiguity is found here.
  KEY `IX_RemoteLink_Local` (`OrgId`, `LocalObject`, `LocalId`, `State`),
  KEY `IX_RemoteLink_Remote` (`OrgId`, `RemoteObject`, `RemoteId`, `State`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
