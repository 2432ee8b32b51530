-- The organisation whose limits apply to the build; 0: none.
ALTER TABLE build_builds ADD COLUMN organization_id bigint NOT NULL DEFAULT 0;
