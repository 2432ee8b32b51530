-- +goose Up
-- The cache that a build exported last, by all that its tag is made of.
CREATE TABLE build_caches (
    scope      text   NOT NULL, -- whose builds share it
    platform   text   NOT NULL,
    repository text   NOT NULL, -- <registry>/<path>
    digest     text   NOT NULL, -- of the cache manifest
    noted_at   bigint NOT NULL,
    PRIMARY KEY (scope, platform, repository)
);
CREATE INDEX build_caches_noted ON build_caches (noted_at);
