-- vintage: event_only
-- Runtime-owned: idempotent acceptance of completion commands. Payload is sealed.
CREATE TABLE IF NOT EXISTS `_System_RuntimeInbox` (
  `InboxId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `OrgId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `IdempotencyKey` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `CommandKind` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `CommandId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `OutboxId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `Payload` LONGBLOB NOT NULL,
  `PayloadDigest` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `State` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Outcome` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `ReceivedAt` DATETIME(6) NOT NULL,
  `AppliedAt` DATETIME(6) NULL,
  PRIMARY KEY (`InboxId`),
  UNIQUE KEY `UX_RuntimeInbox_Idempotency` (`OrgId`, `IdempotencyKey`),
  KEY `IX_RuntimeInbox_State` (`State`, `ReceivedAt`, `InboxId`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
