-- The organisation of the workspace or of the robot; 0: none, or stored by a release without this column.
ALTER TABLE container_requests ADD COLUMN organization_id bigint NOT NULL DEFAULT 0;
CREATE INDEX container_requests_by_organization ON container_requests (endpoint, organization_id, expires_at) WHERE organization_id <> 0;
