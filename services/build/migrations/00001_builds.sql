-- +goose Up
CREATE TABLE build_builds (
    id             text    PRIMARY KEY, -- <content_id>_<number>
    content_id     text    NOT NULL,
    number         bigint  NOT NULL,
    content_digest text    NOT NULL,
    target         text    NOT NULL,    -- <registry>/<repository>:<tag>
    scope          text    NOT NULL,    -- '': shared
    state          text    NOT NULL,    -- PENDING or COMPLETED
    engine         text    NOT NULL,
    architecture   text    NOT NULL,
    owner          text    NOT NULL,    -- whose turn it is: a user or an address
    endpoint       text    NOT NULL,    -- '' with the three below: anonymous
    user_id        bigint  NOT NULL,
    workspace_id   bigint  NOT NULL,
    email          text    NOT NULL,
    client_ip      text    NOT NULL,
    request        bytea   NOT NULL,    -- slipway.build.v1.SubmitBuildRequest without the context's bytes
    trace_parent   text    NOT NULL,
    time_limit     bigint  NOT NULL,    -- microseconds from the first take
    created_at     bigint  NOT NULL,
    published_at   bigint  NOT NULL,    -- 0: waits here; else a job is on the bus
    publications   bigint  NOT NULL,
    started_at     bigint  NOT NULL,    -- 0: no worker has taken it
    completed_at   bigint  NOT NULL,    -- 0: not yet
    delivery       bigint  NOT NULL,    -- the newest one that a worker took
    worker         text    NOT NULL,
    ticket         text    NOT NULL,    -- hash of the newest delivery's ticket
    succeeded      boolean NOT NULL,
    reason         text    NOT NULL,
    message        text    NOT NULL,
    digest         text    NOT NULL,
    UNIQUE (content_id, number)
);

-- One build at a time makes an image; whoever comes meanwhile joins it.
CREATE UNIQUE INDEX build_builds_pending ON build_builds (target, scope) WHERE state = 'PENDING';
CREATE INDEX build_builds_unfinished ON build_builds (created_at) WHERE state = 'PENDING';
CREATE INDEX build_builds_by_target ON build_builds (target, scope, number);
CREATE INDEX build_builds_by_user ON build_builds (endpoint, user_id, created_at);
CREATE INDEX build_builds_by_ticket ON build_builds (ticket) WHERE ticket <> '';

-- The bytes of build contexts that came with requests, once each.
CREATE TABLE build_contexts (
    digest     text   PRIMARY KEY, -- of the compressed bytes
    content    bytea  NOT NULL,
    expires_at bigint NOT NULL
);

-- Logs of builds that have ended. A running build's log is on the bus.
CREATE TABLE build_logs (
    build_id text   NOT NULL,
    first    bigint NOT NULL, -- ordinal of the first line
    chunk    bytea  NOT NULL, -- slipway.build.v1.LogChunk
    PRIMARY KEY (build_id, first)
);
