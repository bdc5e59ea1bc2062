-- vintage: additive
-- Failure and replay facts of a WorkItem.
ALTER TABLE `_System_ConnectorWorkItem` ADD COLUMN `Outcome` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL;
ALTER TABLE `_System_ConnectorWorkItem` ADD COLUMN `FailureClass` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL;
ALTER TABLE `_System_ConnectorWorkItem` ADD COLUMN `FailureSummary` VARCHAR(1024) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL;
ALTER TABLE `_System_ConnectorWorkItem` ADD COLUMN `FailureCount` INT NOT NULL DEFAULT 0;
ALTER TABLE `_System_ConnectorWorkItem` ADD COLUMN `FirstFailedAt` DATETIME(6) NULL;
ALTER TABLE `_System_ConnectorWorkItem` ADD COLUMN `LastFailedAt` DATETIME(6) NULL;
ALTER TABLE `_System_ConnectorWorkItem` ADD COLUMN `TerminalAt` DATETIME(6) NULL;
ALTER TABLE `_System_ConnectorWorkItem` ADD COLUMN `ReplayedAt` DATETIME(6) NULL;
ALTER TABLE `_System_ConnectorWorkItem` ADD COLUMN `ReplayOfWorkId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL;
ALTER TABLE `_System_ConnectorWorkItem` ADD UNIQUE KEY `UX_WorkItem_ReplayOf` (`ReplayOfWorkId`);
-- Attempt lets the console's count read nothing but this index; it never changes without State.
ALTER TABLE `_System_ConnectorWorkItem` ADD KEY `IX_WorkItem_Dead` (`State`, `TerminalAt`, `WorkId`, `Attempt`);
-- An operator's rights end at a namespace: without this the page of a small one walks past the
-- dead rows of all others.
ALTER TABLE `_System_ConnectorWorkItem` ADD KEY `IX_WorkItem_DeadByNamespace` (`Namespace`, `State`, `TerminalAt`, `WorkId`, `Attempt`);
