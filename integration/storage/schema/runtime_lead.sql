-- vintage: event_only
-- Runtime-owned local object of the walking slice. RemoteId is a compatibility mirror.
CREATE TABLE IF NOT EXISTS `_System_RuntimeLead` (
  `LeadId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `OrgId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Title` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `FirstName` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `LastName` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `Email` VARCHAR(320) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `Company` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `Stage` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `RemoteId` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `Version` BIGINT NOT NULL DEFAULT 1,
  `CreatedAt` DATETIME(6) NOT NULL,
  `UpdatedAt` DATETIME(6) NOT NULL,
  `DeletedAt` DATETIME(6) NULL,
  PRIMARY KEY (`LeadId`),
  KEY `IX_RuntimeLead_Remote` (`OrgId`, `RemoteId`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
