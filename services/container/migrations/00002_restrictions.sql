-- A hash of the repositories that the access token of the request is restricted to; '': all.
ALTER TABLE container_requests ADD COLUMN restriction text NOT NULL DEFAULT '';
