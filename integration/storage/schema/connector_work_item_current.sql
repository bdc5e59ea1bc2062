-- vintage: current
-- Projection input ranges and the inbound rollback.
ALTER TABLE `_System_ConnectorWorkItem` ADD COLUMN `InputStartOrdinal` BIGINT NULL;
ALTER TABLE `_System_ConnectorWorkItem` ADD COLUMN `RollbackExecutionFenceId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL;
ALTER TABLE `_System_ConnectorWorkItem` ADD COLUMN `LegacyOutcomeReceiptVersion` INT NULL;
ALTER TABLE `_System_ConnectorWorkItem` ADD COLUMN `LegacyOutcomeReceiptDigest` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL;
ALTER TABLE `_System_ConnectorWorkItem` ADD KEY `IX_WorkItem_RollbackFence` (`RollbackExecutionFenceId`, `State`);
