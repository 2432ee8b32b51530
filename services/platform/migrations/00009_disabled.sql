-- +goose Up
ALTER TABLE platform_users ADD COLUMN disabled_at bigint NOT NULL DEFAULT 0; -- 0: never
