-- +goose Up
-- Tokens of users of other platforms, which the container service uses in their
-- name.
CREATE TABLE platform_grants (
    id         text   PRIMARY KEY, -- hash of the endpoint and of the token that the client keeps
    endpoint   text   NOT NULL,
    user_id    bigint NOT NULL,    -- at that platform; 0: not known yet
    sealed     bytea  NOT NULL,
    data_key   bytea  NOT NULL,
    key_id     text   NOT NULL,
    renewed_at bigint NOT NULL,    -- version of the tokens; 0: as the client sent them
    busy_until bigint NOT NULL,    -- somebody refreshes them until then
    used_at    bigint NOT NULL     -- to ten minutes
);
CREATE INDEX platform_grants_by_user ON platform_grants (endpoint, user_id, used_at);

-- Our key at each of them.
CREATE TABLE platform_peers (
    id         text   PRIMARY KEY, -- the endpoint
    pairing    text   NOT NULL,
    sealed     bytea  NOT NULL,
    data_key   bytea  NOT NULL,
    key_id     text   NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);
