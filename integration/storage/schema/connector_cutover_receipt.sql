-- vintage: event_only
-- Durable proof of a transition of ownership. Proof is the canonical text ProofDigest is taken of.
CREATE TABLE IF NOT EXISTS `_System_ConnectorCutoverReceipt` (
  `ReceiptId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `PackInstallId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Direction` VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `OwnerGeneration` BIGINT NOT NULL,
  `Proof` LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `ProofDigest` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `PreviousReceiptId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `WrittenAt` DATETIME(6) NOT NULL,
  `WrittenBy` VARCHAR(150) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  PRIMARY KEY (`ReceiptId`),
  UNIQUE KEY `UX_CutoverReceipt_Generation` (`PackInstallId`, `OwnerGeneration`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
