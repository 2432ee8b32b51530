-- The scans that requests asked for, one for each request.
CREATE TABLE container_scans (
    id         text   PRIMARY KEY, -- sc-<16 hex>_1
    request_id text   NOT NULL,
    build_id   text   NOT NULL,    -- the build of the image; '': the image existed
    content    text   NOT NULL,    -- the key of its findings; '': the image does not exist yet
    digest     text   NOT NULL,    -- what the image's reference resolved to, with content
    problem    text   NOT NULL,    -- why there is nothing to scan; '': none
    created_at bigint NOT NULL,
    due_at     bigint NOT NULL     -- when the image is looked up again; 0: never
);
CREATE UNIQUE INDEX container_scans_by_request ON container_scans (request_id);
CREATE INDEX container_scans_due ON container_scans (due_at) WHERE due_at > 0;
CREATE INDEX container_scans_by_build ON container_scans (build_id) WHERE due_at > 0;
CREATE INDEX container_scans_by_content ON container_scans (content);

-- What was found in the content of images with a version of the database, once for all requests.
CREATE TABLE container_findings (
    content    text    NOT NULL, -- hash of the image's digest, its added layers and its platforms
    version    text    NOT NULL, -- of the database
    version_at bigint  NOT NULL, -- the newest record in the database
    state      text    NOT NULL, -- 'pending', 'done' or 'failed'
    repeated   boolean NOT NULL, -- scanned again because of a newer database
    client     text    NOT NULL, -- who shares the workers, as fairshare.Client
    request_id text    NOT NULL, -- a request for the image
    digest     text    NOT NULL, -- as in container_scans
    created_at bigint  NOT NULL,
    started_at bigint  NOT NULL, -- 0: not started
    ended_at   bigint  NOT NULL, -- 0: not ended
    due_at     bigint  NOT NULL, -- when a pending scan may be claimed; a claim is a later time
    claims     bigint  NOT NULL, -- number of claims
    result     bytea   NOT NULL, -- slipway.container.v1.ScanResult, compressed with gzip
    PRIMARY KEY (content, version)
);
CREATE INDEX container_findings_pending ON container_findings (client, created_at) WHERE state = 'pending';
CREATE INDEX container_findings_created ON container_findings (created_at);
