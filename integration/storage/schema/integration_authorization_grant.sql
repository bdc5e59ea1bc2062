-- vintage: event_only
-- One version of the secret material of one binding generation. TokenBundle is sealed. ActiveKey is
-- the binding while the version is active, so that one is.
CREATE TABLE IF NOT EXISTS `_System_IntegrationAuthorizationGrant` (
  `GrantId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `BindingId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `BindingGeneration` BIGINT NOT NULL,
  `TokenVersion` BIGINT NOT NULL,
  `ActiveKey` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `State` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `Origin` VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  `TokenBundle` LONGBLOB NULL,
  `KeyId` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `ExpiresAt` DATETIME(6) NULL,
  `CreatedByWorkId` CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `OwnershipEpoch` BIGINT NOT NULL DEFAULT 0,
  `FailureCode` VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
  `CreatedAt` DATETIME(6) NOT NULL,
  `ActivatedAt` DATETIME(6) NULL,
  `SupersededAt` DATETIME(6) NULL,
  `RevokedAt` DATETIME(6) NULL,
  PRIMARY KEY (`GrantId`),
  UNIQUE KEY `UX_Grant_Active` (`ActiveKey`),
  UNIQUE KEY `UX_Grant_Version` (`BindingId`, `BindingGeneration`, `TokenVersion`),
  KEY `IX_Grant_Expiry` (`State`, `ExpiresAt`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
