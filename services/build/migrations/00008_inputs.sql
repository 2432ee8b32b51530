-- slipway.build.v1.Inputs: the images and layers that the worker has read; NULL: unknown.
ALTER TABLE build_builds ADD COLUMN inputs bytea;

-- For a mirror: whether its provenance is at the target (PENDING after a failed attempt, ATTACHED or
-- FAILED; '' before the first attempt), and why it is not.
ALTER TABLE build_builds ADD COLUMN provenance text NOT NULL DEFAULT '';
ALTER TABLE build_builds ADD COLUMN provenance_message text NOT NULL DEFAULT '';
