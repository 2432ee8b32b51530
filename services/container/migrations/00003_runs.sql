-- +goose Up
ALTER TABLE container_requests ADD COLUMN workflow_id text NOT NULL DEFAULT ''; -- '': the life is not a run's

CREATE INDEX container_requests_by_run ON container_requests (id) WHERE workflow_id <> '';
