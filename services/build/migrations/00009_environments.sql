-- Digest of the artifact with which the image's environment is mounted; '' without mount, and for builds
-- of earlier releases.
ALTER TABLE build_builds ADD COLUMN environment text NOT NULL DEFAULT '';
