-- vintage: event_only
-- Verified raw webhook, stored before the 200. Body is sealed. ReceiptId is time ordered, so the
-- console pages by the primary key and ingest pays for no index of its own for that.
CREATE TABLE IF NOT EXISTS `_System_ConnectorIngressReceipt` (
  `ReceiptId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `PackInstallId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Namespace` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `RouteKey` VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `Provider` VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `DeliveryId` VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  `IdempotencyKey` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `BodyHash` CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Body` LONGBLOB NOT NULL,
  `SafeHeaders` JSON NULL,
  `SubscriptionGeneration` BIGINT NOT NULL DEFAULT 0,
  `State` VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `QuarantineCode` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `ReceivedAt` DATETIME(6) NOT NULL,
  `MaterializedAt` DATETIME(6) NULL,
  -- The incarnation the receipt was materialized under: the one active then, not the one at arrival.
  `MaterializedPackInstallId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  PRIMARY KEY (`ReceiptId`),
  UNIQUE KEY `UX_Receipt_Idempotency` (`IdempotencyKey`),
  -- The materializer's queue, in order of arrival: of one namespace, or of all by its first column.
  KEY `IX_Receipt_Ready` (`State`, `Namespace`, `ReceivedAt`, `ReceiptId`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
