ALTER TABLE platform_users ADD COLUMN administrator boolean NOT NULL DEFAULT false;
UPDATE platform_users SET administrator = true WHERE id = 1;

-- The audit trail: events in the order of their numbers, each with a hash of itself and of the
-- event before it. Rows are never updated. Each replaces a row of the previous table or is
-- written in the transaction of the change that it records.
ALTER TABLE platform_audit RENAME TO platform_audit_before;
CREATE TABLE platform_audit (
    sequence     bigint  PRIMARY KEY,
    at           bigint  NOT NULL,
    user_id      bigint  NOT NULL, -- the user who acted; 0: an operator, the program, or not known
    actor        text    NOT NULL,
    client       text    NOT NULL, -- the address of the client
    org_id       bigint  NOT NULL, -- 0: none
    workspace_id bigint  NOT NULL, -- 0: none
    action       text    NOT NULL,
    subject      text    NOT NULL,
    refused      boolean NOT NULL,
    reason       text    NOT NULL, -- of a refusal
    old_values   text    NOT NULL, -- JSON without secrets; '': none
    new_values   text    NOT NULL,
    request_id   text    NOT NULL,
    hash         bytea             -- NULL: recorded before the chain of hashes began
);
INSERT INTO platform_audit (sequence, at, user_id, actor, client, org_id, workspace_id, action, subject, refused, reason, old_values, new_values, request_id)
SELECT row_number() OVER (ORDER BY at, id), at, user_id, '', '', 0, workspace_id, action, subject, false, '', '', '', request_id FROM platform_audit_before;
DROP TABLE platform_audit_before;
CREATE INDEX platform_audit_by_actor ON platform_audit (actor, sequence);
CREATE INDEX platform_audit_by_action ON platform_audit (action, sequence);

-- The ends of the chain: at most one row. Appending an event locks it, so that events are
-- numbered without gaps.
CREATE TABLE platform_audit_chain (
    id             bigint PRIMARY KEY, -- always 1
    sequence       bigint NOT NULL,    -- of the newest event
    hash           bytea,              -- of the newest event; NULL: the chain begins after it
    start_sequence bigint NOT NULL,    -- of the newest event that was deleted after its retention
    start_hash     bytea
);
INSERT INTO platform_audit_chain (id, sequence, start_sequence)
SELECT 1, count(*), count(*) FROM platform_audit HAVING count(*) > 0;
