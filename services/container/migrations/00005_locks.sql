-- +goose Up
-- What a request for Conda packages stood for when somebody asked first: the same
-- request stands for the same packages until it is forgotten.
CREATE TABLE container_locks (
    id         text   PRIMARY KEY, -- hash of what is asked for, and by whom where only they may know
    lock       bytea  NOT NULL,    -- slipway.conda.v1.SolvePackagesResponse, compressed with gzip
    base       text   NOT NULL,    -- digest of the base image
    created_at bigint NOT NULL
);
CREATE INDEX container_locks_created ON container_locks (created_at);
