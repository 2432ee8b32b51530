-- +goose Up
-- What its Conda packages stood for when it was requested:
-- slipway.conda.v1.SolvePackagesResponse, compressed with gzip; NULL: not known.
ALTER TABLE build_builds ADD COLUMN conda_lock bytea;
