-- vintage: event_only
-- Append-only evidence of e-mail and webhook sends; no claim and no effect reads it.
CREATE TABLE IF NOT EXISTS `_System_ExternalDeliveryAttempt` (
  `DeliveryAttemptId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `OrgId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Channel` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Cause` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `SubjectKind` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `SubjectId` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `TargetDigest` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `ResendOfAttemptId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `ResponseStatus` INT NULL,
  `Outcome` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `OutcomeReason` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `PayloadDigest` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `RequestedBy` VARCHAR(150) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `AttemptedAt` DATETIME(6) NOT NULL,
  PRIMARY KEY (`DeliveryAttemptId`),
  KEY `IX_DeliveryAttempt_Subject` (`OrgId`, `SubjectKind`, `SubjectId`, `AttemptedAt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
