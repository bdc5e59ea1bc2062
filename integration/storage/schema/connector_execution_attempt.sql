-- vintage: event_only
-- One row per claimed execution. The last attempt's end is derived from the WorkItem.
CREATE TABLE IF NOT EXISTS `_System_ConnectorExecutionAttempt` (
  `WorkId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Attempt` INT NOT NULL,
  `OwnershipEpoch` BIGINT NOT NULL,
  `StartedAt` DATETIME(6) NOT NULL,
  `DispatchedAt` DATETIME(6) NULL,
  `FinishedAt` DATETIME(6) NULL,
  `Outcome` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
  PRIMARY KEY (`WorkId`, `Attempt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
