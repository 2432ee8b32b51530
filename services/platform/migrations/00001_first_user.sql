-- +goose Up
CREATE TABLE platform_users (
    id         bigint PRIMARY KEY,
    user_name  text   NOT NULL UNIQUE,
    email      text   NOT NULL UNIQUE,
    created_at bigint NOT NULL
);

CREATE TABLE platform_tokens (
    id          bigint PRIMARY KEY,
    user_id     bigint NOT NULL REFERENCES platform_users (id),
    name        text   NOT NULL,
    secret_hash bytea  NOT NULL,
    created_at  bigint NOT NULL
);
