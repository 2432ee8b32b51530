-- For a build with an environment that is mounted: SHA-256 of its lock's records, 64 hex digits. '' for other
-- builds, while the packages are not solved, and for builds of earlier releases until they are requested again.
ALTER TABLE build_builds ADD COLUMN lock_digest text NOT NULL DEFAULT '';
CREATE INDEX build_builds_by_lock ON build_builds (lock_digest, scope, created_at) WHERE lock_digest <> '';
