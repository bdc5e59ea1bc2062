-- vintage: legacy
-- One executable unit; WorkId is a generation's identity, ProjectionKey a projection's. What later
-- vintages add is in connector_work_item_additive.sql and connector_work_item_current.sql.
CREATE TABLE IF NOT EXISTS `_System_ConnectorWorkItem` (
  `WorkId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `WorkFamily` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `WorkType` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `SubjectKind` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `SubjectId` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `EventId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `OrgId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Namespace` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `PackInstallId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `RouteId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `RouteVersion` INT NOT NULL,
  `FlowName` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `FlowVersion` VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `CompanionPackName` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `CompanionPackVersion` VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `EventKind` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `CatalogRevision` BIGINT NOT NULL DEFAULT 0,
  `CatalogDigest` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `PayloadSchemaVersion` INT NOT NULL DEFAULT 1,
  `EngineCapability` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '1',
  `QueueClass` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'default',
  `SourceLane` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `TargetLane` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `LaneOrdinal` BIGINT NULL,
  `ProjectionKey` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `ProjectionActiveKey` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `SourceScopeKey` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `TargetLaneActiveKey` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `State` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `RunAfter` DATETIME(6) NOT NULL,
  `Attempt` INT NOT NULL DEFAULT 0,
  `MaxAttempts` INT NOT NULL,
  `LeaseOwner` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `LeaseToken` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `LeaseUntil` DATETIME(6) NULL,
  `OwnershipEpoch` BIGINT NOT NULL DEFAULT 0,
  `OwnerGeneration` BIGINT NOT NULL DEFAULT 1,
  `CancelRequestedAt` DATETIME(6) NULL,
  `CancelRequestedBy` VARCHAR(150) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `BlockedOn` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `BlockedSince` DATETIME(6) NULL,
  `CreatedAt` DATETIME(6) NOT NULL,
  `UpdatedAt` DATETIME(6) NOT NULL,
  PRIMARY KEY (`WorkId`),
  UNIQUE KEY `UX_WorkItem_Event` (`EventId`, `WorkType`),
  UNIQUE KEY `UX_WorkItem_ProjectionActive` (`ProjectionActiveKey`),
  UNIQUE KEY `UX_WorkItem_TargetLaneActive` (`TargetLaneActiveKey`),
  KEY `IX_WorkItem_ProjectionOrder` (`ProjectionKey`, `LaneOrdinal`),
  KEY `IX_WorkItem_Scope` (`Namespace`, `EventKind`, `SourceLane`, `State`),
  -- Candidates: pending is a first claim, retry a later one, each one range in order of RunAfter;
  -- QueueClass and WorkId are read from the index. Its 'processing' prefix is bounded by the live
  -- claims, so the reaper needs no index by LeaseUntil that every claim would have to maintain.
  KEY `IX_WorkItem_Claim` (`State`, `RunAfter`, `QueueClass`, `WorkId`),
  -- Head of a source lane over all incarnations of a namespace. State stands before the ordinal:
  -- the other way round the check walks the lane's whole terminal history.
  KEY `IX_WorkItem_SourceLane` (`Namespace`, `SourceLane`, `State`, `PackInstallId`, `LaneOrdinal`),
  -- What is left of one incarnation: cutover audits, drains, rollback.
  KEY `IX_WorkItem_Pack` (`PackInstallId`, `State`, `LaneOrdinal`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
