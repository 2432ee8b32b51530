-- The lock with the packages of the image (container_indexed_locks); '?': not looked up yet, '-': not known, '': none.
ALTER TABLE container_requests ADD COLUMN lock_id text NOT NULL DEFAULT '?';
-- Whether the image is frozen, so that its name does not expire; known once lock_id is not '?'.
ALTER TABLE container_requests ADD COLUMN frozen boolean NOT NULL DEFAULT false;
-- The newest request that patched the image; '': none.
ALTER TABLE container_requests ADD COLUMN replaced_by text NOT NULL DEFAULT '';
CREATE INDEX container_requests_unindexed ON container_requests (build_id) WHERE lock_id = '?' AND build_id <> '' AND revoked_at = 0;
CREATE INDEX container_requests_by_lock ON container_requests (lock_id) WHERE lock_id <> '?' AND lock_id <> '';

-- The distinct sets of packages in images.
CREATE TABLE container_indexed_locks (
    id      text   PRIMARY KEY, -- hash of the packages
    used_at bigint NOT NULL     -- when a request was last connected with it
);

CREATE TABLE container_lock_packages (
    lock_id text NOT NULL,
    name    text NOT NULL,
    version text NOT NULL,
    kind    text NOT NULL, -- conda or pypi
    PRIMARY KEY (lock_id, name, version, kind)
);
CREATE INDEX container_lock_packages_by_name ON container_lock_packages (name, version, lock_id);
