-- +goose Up
-- Programs that show a code, until a person enters it. Then they have a row of
-- platform_codes instead.
CREATE TABLE platform_devices (
    device_hash bytea  PRIMARY KEY,
    user_hash   bytea  NOT NULL UNIQUE, -- of the code that is shown
    client_id   text   NOT NULL,
    pause       bigint NOT NULL,           -- seconds between two questions
    asked_at    bigint NOT NULL DEFAULT 0, -- when it last asked
    expires_at  bigint NOT NULL
);
