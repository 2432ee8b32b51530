-- Images with names that do not expire: the catalog.
CREATE TABLE container_kept (
    id              text   PRIMARY KEY, -- the content id of the build; of an image of an organisation, random
    content         text   NOT NULL,    -- the content id of the build
    organization    bigint NOT NULL,    -- of the platform; 0: the image is public
    name            text   NOT NULL,    -- of the image below the id
    tag             text   NOT NULL,
    platform        text   NOT NULL,
    format          text   NOT NULL,    -- 'sif' or ''
    client          text   NOT NULL,    -- who kept it, as fairshare.Client
    specs           text   NOT NULL,    -- what was requested, a line each
    channels        text   NOT NULL,    -- a line each
    base_image      text   NOT NULL,    -- by digest
    build           bytea  NOT NULL,    -- slipway.build.v1.SubmitBuildRequest with the lock, compressed with gzip
    build_id        text   NOT NULL,    -- the newest build
    package_count   bigint NOT NULL,
    created_at      bigint NOT NULL,    -- of an image that was never built, when it was requested last
    built_at        bigint NOT NULL,    -- 0: the image was never built
    digest          text   NOT NULL,    -- '' until it is built
    size            bigint NOT NULL,    -- compressed, of all platforms
    pulls           bigint NOT NULL,
    deleted_at      bigint NOT NULL,    -- 0: the name works
    deletion        text   NOT NULL     -- the reason
);
CREATE UNIQUE INDEX container_kept_once ON container_kept (content, organization) WHERE deleted_at = 0;
CREATE INDEX container_kept_by_content ON container_kept (content, organization, deleted_at);
CREATE INDEX container_kept_by_client ON container_kept (client);
CREATE INDEX container_kept_unbuilt ON container_kept (created_at) WHERE built_at = 0;
CREATE INDEX container_kept_by_build ON container_kept (build_id);
CREATE INDEX container_kept_by_time ON container_kept (organization, created_at, id);
CREATE INDEX container_kept_by_pulls ON container_kept (organization, pulls, id);
CREATE INDEX container_kept_by_name ON container_kept (organization, name, tag, id);

-- The packages of kept images on all platforms.
CREATE TABLE container_kept_packages (
    kept_id   text    NOT NULL,
    name      text    NOT NULL,
    version   text    NOT NULL,
    kind      text    NOT NULL, -- conda or pypi
    license   text    NOT NULL,
    requested boolean NOT NULL, -- not only a dependency
    PRIMARY KEY (kept_id, name, version, kind)
);
CREATE INDEX container_kept_packages_by_name ON container_kept_packages (name, version, kept_id);

CREATE TABLE container_kept_pulls (
    kept_id text   NOT NULL,
    day     text   NOT NULL, -- in UTC, e.g. 2026-03-01
    pulls   bigint NOT NULL,
    PRIMARY KEY (kept_id, day)
);
CREATE INDEX container_kept_pulls_by_day ON container_kept_pulls (day);
