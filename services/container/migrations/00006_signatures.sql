-- The signatures of statements, if the key does not sign deterministically: all replicas return the same.
CREATE TABLE container_signatures (
    key_hint   text   NOT NULL, -- SHA-256 of the public key in base64
    message    text   NOT NULL, -- SHA-256 of what was signed, in hex
    signature  bytea  NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (key_hint, message)
);
CREATE INDEX container_signatures_by_age ON container_signatures (created_at);
