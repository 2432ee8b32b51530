-- +goose Up
ALTER TABLE container_requests ADD COLUMN build_id text NOT NULL DEFAULT ''; -- '': nothing is built

CREATE INDEX container_requests_by_build ON container_requests (build_id) WHERE build_id <> '';
