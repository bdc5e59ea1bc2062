-- vintage: event_only
-- Immutable payload and routing fact. The executor fields at the end are compatibility: they are
-- authority only while ExecutionOwner is 'event'.
CREATE TABLE IF NOT EXISTS `_System_ConnectorEvent` (
  `EventId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `OrgId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Namespace` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `PackInstallId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `RouteId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `RouteVersion` INT NOT NULL,
  `RouteSnapshot` JSON NULL,
  `Provider` VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `EventKind` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `WorkType` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `SourceLane` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `TargetLane` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `LaneOrdinal` BIGINT NULL,
  `IdempotencyKey` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `DeliveryId` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `DeliverySequence` BIGINT NULL,
  `ReceiptId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `ReceiptIndex` INT NULL,
  `Payload` LONGBLOB NOT NULL,
  `PayloadHash` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `OccurredAt` DATETIME(6) NULL,
  `ReceivedAt` DATETIME(6) NOT NULL,
  `ReplayOfEventId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `ExecutionOwner` VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'event',
  `Status` VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'pending',
  `RetryCount` INT NOT NULL DEFAULT 0,
  `NextRetryAt` DATETIME(6) NULL,
  `ClaimToken` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `ClaimedBy` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `ClaimedUntil` DATETIME(6) NULL,
  `LastError` VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `TerminalAt` DATETIME(6) NULL,
  `ReplayedAt` DATETIME(6) NULL,
  PRIMARY KEY (`EventId`),
  UNIQUE KEY `UX_Event_Ordinal` (`PackInstallId`, `LaneOrdinal`),
  UNIQUE KEY `UX_Event_Idempotency` (`Namespace`, `EventKind`, `IdempotencyKey`),
  UNIQUE KEY `UX_Event_Receipt` (`ReceiptId`, `ReceiptIndex`),
  UNIQUE KEY `UX_Event_ReplayOf` (`ReplayOfEventId`),
  -- A generation's inputs, by interval, in ordinal order.
  KEY `IX_Event_SourceLane` (`PackInstallId`, `EventKind`, `SourceLane`, `LaneOrdinal`),
  KEY `IX_Event_Scope` (`Namespace`, `EventKind`, `SourceLane`, `Status`),
  KEY `IX_Event_Dead` (`Status`, `TerminalAt`, `EventId`),
  -- An operator's rights end at a namespace: without this the page of a small one walks past the
  -- dead rows of all others.
  KEY `IX_Event_DeadByNamespace` (`Namespace`, `Status`, `TerminalAt`, `EventId`),
  -- The Event executor's candidates, and the cutover's proof that none is left.
  KEY `IX_Event_Executor` (`PackInstallId`, `ExecutionOwner`, `Status`, `NextRetryAt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
