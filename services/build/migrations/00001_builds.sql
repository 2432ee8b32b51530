CREATE TABLE build_builds (
    id             text    PRIMARY KEY, -- <content_id>_<number>
    content_id     text    NOT NULL,
    number         bigint  NOT NULL,
    content_digest text    NOT NULL,
    target         text    NOT NULL,    -- <registry>/<repository>:<tag>
    scope          text    NOT NULL,    -- '': shared
    state          text    NOT NULL,    -- PENDING or COMPLETED
    engine         text    NOT NULL,
    architecture   text    NOT NULL,
    owner          text    NOT NULL,    -- whose turn it is: a user or an address
    endpoint       text    NOT NULL,    -- '' with the three below: anonymous
    user_id        bigint  NOT NULL,
    workspace_id   bigint  NOT NULL,
    email          text    NOT NULL,
    client_ip      text    NOT NULL,
    request        bytea   NOT NULL,    -- slipway.build.v1.SubmitBuildRequest without the context's bytes
    trace_parent   text    NOT NULL,
    time_limit     bigint  NOT NULL,    -- microseconds from the first take
    created_at     bigint  NOT NULL,
    published_at   bigint  NOT NULL,    -- 0: waits here; else a job is on the bus
    publications   bigint  NOT NULL,
    started_at     bigint  NOT NULL,    -- 0: no worker has taken it
    completed_at   bigint  NOT NULL,    -- 0: not yet
    delivery       bigint  NOT NULL,    -- the newest one that a worker took
    worker         text    NOT NULL,
    ticket         text    NOT NULL,    -- hash of the newest delivery's ticket
    succeeded      boolean NOT NULL,
    reason         text    NOT NULL,
    message        text    NOT NULL,
    digest         text    NOT NULL,
    -- When the build's turn came to be counted: 0 not yet, else its number for the metrics
    -- service; -1 is never (an index, or an image that was found).
    counted        bigint  NOT NULL,
    -- What the Conda packages resolved to: slipway.conda.v1.SolvePackagesResponse, compressed
    -- with gzip; NULL: not known.
    conda_lock     bytea,
    -- When the Conda packages are to be solved, or solved again after a failure, in
    -- microseconds; 0: nothing has to be solved.
    solve_at       bigint  NOT NULL,
    UNIQUE (content_id, number)
);

-- One build at a time makes an image; whoever comes meanwhile joins it.
CREATE UNIQUE INDEX build_builds_pending ON build_builds (target, scope) WHERE state = 'PENDING';
CREATE INDEX build_builds_unfinished ON build_builds (created_at) WHERE state = 'PENDING';
CREATE INDEX build_builds_by_target ON build_builds (target, scope, number);
CREATE INDEX build_builds_by_user ON build_builds (endpoint, user_id, created_at);
CREATE INDEX build_builds_by_ticket ON build_builds (ticket) WHERE ticket <> '';
CREATE INDEX build_builds_uncounted ON build_builds (created_at) WHERE counted = 0;
CREATE INDEX build_builds_counted ON build_builds (counted) WHERE counted > 0;
CREATE INDEX build_builds_unsolved ON build_builds (solve_at) WHERE solve_at > 0;
-- For estimates of how long builds of a kind take.
CREATE INDEX build_builds_lengths ON build_builds (engine, architecture, completed_at)
    WHERE state = 'COMPLETED' AND succeeded AND started_at > 0;
-- For the builds that a worker has.
CREATE INDEX build_builds_worker ON build_builds (worker) WHERE worker <> '' AND state = 'PENDING';

-- The bytes of build contexts that came with requests, once each.
CREATE TABLE build_contexts (
    digest     text   PRIMARY KEY, -- of the compressed bytes
    content    bytea  NOT NULL,
    expires_at bigint NOT NULL
);

-- Logs of builds that have ended. A running build's log is on the bus.
CREATE TABLE build_logs (
    build_id text   NOT NULL,
    first    bigint NOT NULL, -- ordinal of the first line
    chunk    bytea  NOT NULL, -- slipway.build.v1.LogChunk
    PRIMARY KEY (build_id, first)
);

-- One row: how far the numbers go, and how far the bus has them.
CREATE TABLE build_counting (
    id        bigint PRIMARY KEY, -- 1
    source    text   NOT NULL,    -- the name under which the metrics service knows the numbers
    numbered  bigint NOT NULL,
    published bigint NOT NULL
);

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

-- The keys with which workers sign what they state about the layers that they build.
CREATE TABLE build_workers (
    key_id        text    PRIMARY KEY, -- SHA-256 of the public key, in hex
    worker        text    NOT NULL,    -- its name
    certificate   text    NOT NULL,    -- SHA-256 of its certificate's public key; '': it has none
    public_key    bytea   NOT NULL,
    registered_at bigint  NOT NULL,
    seen_at       bigint  NOT NULL,    -- the last registration
    revoked_at    bigint  NOT NULL,    -- 0: valid
    barred        boolean NOT NULL,    -- the certificate may not register another key
    forgotten     boolean NOT NULL     -- its records were removed from the bus
);
CREATE INDEX build_workers_name ON build_workers (worker);
CREATE INDEX build_workers_certificate ON build_workers (certificate);
CREATE INDEX build_workers_seen ON build_workers (seen_at);

-- The keys that signed layers of other workers in the image of a build.
CREATE TABLE build_layer_keys (
    build_id text NOT NULL,
    key_id   text NOT NULL,
    PRIMARY KEY (build_id, key_id)
);
CREATE INDEX build_layer_keys_key ON build_layer_keys (key_id);

-- The workers that took the jobs of a build, and those that signed layers in its image.
CREATE TABLE build_makers (
    build_id text NOT NULL,
    worker   text NOT NULL,
    PRIMARY KEY (build_id, worker)
);
CREATE INDEX build_makers_worker ON build_makers (worker);

-- Builds of workers that were revoked, and those that were made from their images.
CREATE TABLE build_discarded (
    build_id     text    PRIMARY KEY,
    target       text    NOT NULL, -- as in build_builds
    made         boolean NOT NULL, -- the build made an image, which must not be served
    rebuilt      boolean NOT NULL, -- another build has made the image of the target since
    discarded_at bigint  NOT NULL
);
CREATE INDEX build_discarded_target ON build_discarded (target);

-- The packages of public channels that were used in images, for searches by command and file.
CREATE TABLE build_packages (
    id        bigint PRIMARY KEY, -- random
    channel   text   NOT NULL,    -- URL
    subdir    text   NOT NULL,
    file_name text   NOT NULL,
    sha256    text   NOT NULL,    -- of the artifact, in hex
    name      text   NOT NULL,
    summary   text   NOT NULL,    -- '' with the two below: unknown
    home      text   NOT NULL,
    license   text   NOT NULL,
    files     bigint NOT NULL,    -- number of rows in build_package_files
    worker    text   NOT NULL,    -- that reported the content
    used_at   bigint NOT NULL,    -- the last use in an image, exact to a day
    UNIQUE (channel, subdir, file_name)
);
CREATE INDEX build_packages_sha256 ON build_packages (sha256);
CREATE INDEX build_packages_name ON build_packages (channel, name, used_at);
CREATE INDEX build_packages_used ON build_packages (used_at);
CREATE INDEX build_packages_worker ON build_packages (worker);

-- The files of these packages.
CREATE TABLE build_package_files (
    name    text   NOT NULL, -- the last element of the path
    folder  text   NOT NULL, -- the path below the prefix without the last element; '': none
    package bigint NOT NULL, -- id in build_packages
    PRIMARY KEY (name, folder, package)
);
CREATE INDEX build_package_files_package ON build_package_files (package);
