-- +goose Up
-- People on the way to the OIDC provider and back.
CREATE TABLE platform_sign_ins (
    state_hash    bytea  PRIMARY KEY,
    client_id     text   NOT NULL,
    redirect_uri  text   NOT NULL,
    challenge     text   NOT NULL,
    program_state text   NOT NULL,
    nonce         text   NOT NULL,
    verifier      text   NOT NULL,
    expires_at    bigint NOT NULL
);

-- Who has signed in as whom at a provider.
CREATE TABLE platform_logins (
    issuer     text   NOT NULL,
    subject    text   NOT NULL,
    user_id    bigint NOT NULL REFERENCES platform_users (id) ON DELETE CASCADE,
    created_at bigint NOT NULL,
    PRIMARY KEY (issuer, subject)
);
