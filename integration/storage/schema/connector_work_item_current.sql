-- vintage: current
-- Projection input ranges and the inbound rollback.
ALTER TABLE `_System_ConnectorWorkItem` ADD COLUMN `InputStartOrdinal` BIGINT NULL;
ALTER TABLE `_System_ConnectorWorkItem` ADD COLUMN `RollbackExecutionFenceId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL;
ALTER TABLE `_System_ConnectorWorkItem` ADD COLUMN `LegacyOutcomeReceiptVersion` INT NULL;
ALTER TABLE `_System_ConnectorWorkItem` ADD COLUMN `LegacyOutcomeReceiptDigest` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL;
-- Without the state: every claim and every end would have to move an entry that only a rollback reads.
ALTER TABLE `_System_ConnectorWorkItem` ADD KEY `IX_WorkItem_RollbackFence` (`RollbackExecutionFenceId`);
-- Where a generation stands in its source lane: a range by its lower bound, which never moves.
ALTER TABLE `_System_ConnectorWorkItem` ADD COLUMN `LanePosition` BIGINT AS (COALESCE(`InputStartOrdinal`, `LaneOrdinal`)) VIRTUAL;
-- Head of a source lane over all incarnations of a namespace. State stands before the position: the other way
-- round the check walks the lane's whole terminal history.
ALTER TABLE `_System_ConnectorWorkItem` ADD KEY `IX_WorkItem_LanePosition` (`Namespace`, `SourceLane`, `State`, `PackInstallId`, `LanePosition`);
