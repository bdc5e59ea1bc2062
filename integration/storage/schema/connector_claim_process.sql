-- vintage: event_only
-- Every claim-capable process. Each claim locks its own row; a cutover evicts by updating it, which
-- waits for claims in flight. The columns after EvictedBy only tell an operator what it does.
CREATE TABLE IF NOT EXISTS `_System_ConnectorClaimProcess` (
  `ProcessId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Kind` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `BuildVersion` VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `Host` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `PackInstallId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `ObservedReceiptId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `BridgeCompatible` TINYINT(1) NOT NULL DEFAULT 0,
  `StartedAt` DATETIME(6) NOT NULL,
  `HeartbeatAt` DATETIME(6) NOT NULL,
  `StoppedAt` DATETIME(6) NULL,
  `EvictedAt` DATETIME(6) NULL,
  `EvictedBy` VARCHAR(150) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `Roles` VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'claim',
  `Concurrency` INT NOT NULL DEFAULT 1,
  `InFlight` INT NOT NULL DEFAULT 0,
  `DrainStartedAt` DATETIME(6) NULL,
  PRIMARY KEY (`ProcessId`),
  -- What still runs is one short range, whatever stopped before.
  KEY `IX_ClaimProcess_Running` (`StoppedAt`, `HeartbeatAt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
