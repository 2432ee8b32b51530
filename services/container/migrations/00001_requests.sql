CREATE TABLE container_requests (
    id              text    PRIMARY KEY, -- hash of the token
    created_at      bigint  NOT NULL,
    expires_at      bigint  NOT NULL,
    revoked_at      bigint  NOT NULL,    -- 0: not revoked
    revocation_sent boolean NOT NULL,    -- whether Redis and the other services were told
    endpoint        text    NOT NULL,    -- '' with the three below: anonymous
    user_id         bigint  NOT NULL,
    workspace_id    bigint  NOT NULL,
    email           text    NOT NULL,
    client_ip       text    NOT NULL,
    build_id        text    NOT NULL,    -- '': nothing is built
    workflow_id     text    NOT NULL,    -- '': the request does not end with a run
    request         bytea   NOT NULL,    -- slipway.container.v1.ContainerRequest without secrets
    plan            bytea   NOT NULL     -- slipway.container.v1.Plan
);

CREATE INDEX container_requests_by_expiry ON container_requests (expires_at);
CREATE INDEX container_requests_unsent ON container_requests (revoked_at) WHERE revoked_at > 0 AND NOT revocation_sent;
CREATE INDEX container_requests_by_build ON container_requests (build_id) WHERE build_id <> '';
CREATE INDEX container_requests_by_run ON container_requests (id) WHERE workflow_id <> '';
CREATE INDEX container_requests_by_user ON container_requests (endpoint, user_id, created_at, id) WHERE endpoint <> '';

-- What a request's reference has resolved to after it was made.
CREATE TABLE container_digests (
    request_id  text   NOT NULL,
    digest      text   NOT NULL,
    recorded_at bigint NOT NULL,
    PRIMARY KEY (request_id, digest)
);

-- The content of `data:` layers, once each, for as long as a request needs it.
CREATE TABLE container_layers (
    digest     text   PRIMARY KEY, -- of the compressed bytes
    content    bytea  NOT NULL,
    expires_at bigint NOT NULL
);

CREATE INDEX container_layers_by_expiry ON container_layers (expires_at);

-- What the packages of a Conda request resolved to when it was first made: the same request
-- resolves to the same packages until the row is deleted.
CREATE TABLE container_locks (
    id         text   PRIMARY KEY, -- hash of the request, and of its user if the packages are private
    lock       bytea  NOT NULL,    -- slipway.conda.v1.SolvePackagesResponse, compressed with gzip
    base       text   NOT NULL,    -- digest of the base image
    created_at bigint NOT NULL
);
CREATE INDEX container_locks_created ON container_locks (created_at);
