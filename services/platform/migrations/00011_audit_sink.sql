-- How far the audit trail was written to audit_sink: at most one row, which the first process
-- with this setting creates. One process at a time holds the lease and writes.
CREATE TABLE platform_audit_sink (
    id            bigint PRIMARY KEY, -- always 1
    sequence      bigint NOT NULL,    -- of the newest event that the sink has accepted
    holder        text   NOT NULL,    -- the process with the lease; '': none
    held_until    bigint NOT NULL,    -- the end of the lease
    seen_at       bigint NOT NULL,    -- when a process has last claimed the lease
    written_at    bigint NOT NULL,    -- when the sink has last accepted events; at first when the row was created
    lost          bigint NOT NULL,    -- events that were deleted before the sink accepted them
    lost_at       bigint NOT NULL,    -- when the last of them was noticed; 0: none
    problem       text   NOT NULL,    -- why events cannot be written; '': they can
    failing_since bigint NOT NULL     -- since when; 0: they can
);
