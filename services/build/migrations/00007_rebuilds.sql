-- Builds that another worker makes again, to compare the bytes (verify_rebuild).
CREATE TABLE build_rebuilds (
    build_id        text   PRIMARY KEY,
    state           text   NOT NULL, -- WAITING, RUNNING, SAME, DIFFERENT, UNAVAILABLE or ABANDONED
    created_at      bigint NOT NULL, -- when the build ended
    retry_at        bigint NOT NULL, -- a worker gets it at this time or later
    taken_at        bigint NOT NULL, -- 0: no worker has it
    lease_until     bigint NOT NULL, -- 0: no worker has it
    ended_at        bigint NOT NULL, -- 0: not yet
    acknowledged_at bigint NOT NULL, -- 0: an operator has not seen a difference
    attempts        bigint NOT NULL,
    layers          text   NOT NULL, -- version of the layers: equal versions have equal bytes
    image           text   NOT NULL, -- <registry>/<repository>:<tag>
    first_worker    text   NOT NULL, -- pushed the image
    first_digest    text   NOT NULL, -- of the image
    worker          text   NOT NULL, -- took the rebuild last
    digest          text   NOT NULL, -- of the rebuild; '': none
    ticket          text   NOT NULL, -- hash of the ticket of the worker; '': none
    message         text   NOT NULL, -- why nothing was compared
    records         text   NOT NULL  -- JSON: the layers that differ; '': none
);
CREATE INDEX build_rebuilds_open ON build_rebuilds (state, created_at) WHERE ended_at = 0;
CREATE INDEX build_rebuilds_different ON build_rebuilds (ended_at) WHERE state = 'DIFFERENT';
CREATE INDEX build_rebuilds_ticket ON build_rebuilds (ticket) WHERE ticket <> '';

-- One row: the key that selects the builds. Workers and clients must not know it, since a worker
-- could otherwise change only the images that are not built again.
CREATE TABLE build_rebuild_key (
    id     bigint PRIMARY KEY, -- 1
    secret bytea  NOT NULL
);
