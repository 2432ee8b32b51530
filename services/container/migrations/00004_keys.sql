-- +goose Up
-- Requests are kept under the hash of their token. Those of a release that kept the
-- token itself are found here and moved.
CREATE INDEX container_requests_by_token ON container_requests (id) WHERE length(id) = 26;
