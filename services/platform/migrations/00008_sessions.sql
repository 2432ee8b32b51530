-- +goose Up
-- A session ends with the access token that it began with. One from before this
-- column is nobody's, so it ends now: its program signs in again.
ALTER TABLE platform_codes ADD COLUMN token_id bigint NOT NULL DEFAULT 0;    -- 0: they signed in at the provider
ALTER TABLE platform_sessions ADD COLUMN token_id bigint NOT NULL DEFAULT 0; -- likewise
ALTER TABLE platform_sessions ADD COLUMN used_at bigint NOT NULL DEFAULT 0;  -- when it last got new tokens
CREATE INDEX platform_sessions_by_token ON platform_sessions (token_id);
DELETE FROM platform_codes;
DELETE FROM platform_sessions;
