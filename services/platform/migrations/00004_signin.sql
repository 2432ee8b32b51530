-- +goose Up
CREATE TABLE platform_codes (
    code_hash    bytea  PRIMARY KEY,
    user_id      bigint NOT NULL REFERENCES platform_users (id) ON DELETE CASCADE,
    client_id    text   NOT NULL,
    redirect_uri text   NOT NULL,
    challenge    text   NOT NULL,
    expires_at   bigint NOT NULL
);

-- A sign-in with its chain of refresh tokens. Without the row, nothing of it is
-- good any more.
CREATE TABLE platform_sessions (
    id           bigint PRIMARY KEY,
    user_id      bigint NOT NULL REFERENCES platform_users (id) ON DELETE CASCADE,
    client_id    text   NOT NULL,
    refresh_hash bytea  NOT NULL, -- of the newest refresh token
    created_at   bigint NOT NULL,
    expires_at   bigint NOT NULL
);
CREATE INDEX platform_sessions_by_user ON platform_sessions (user_id);
