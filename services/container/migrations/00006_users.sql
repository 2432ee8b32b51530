-- +goose Up
CREATE INDEX container_requests_by_user ON container_requests (endpoint, user_id, created_at, id) WHERE endpoint <> '';
