-- +goose Up
-- schema_sums says with which text each migration was applied.
CREATE TABLE schema_sums (
    version BIGINT PRIMARY KEY,
    sum     TEXT NOT NULL
);

-- bridge_facts is what a bridge must find again about itself, by name.
CREATE TABLE bridge_facts (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- +goose Down
DROP TABLE bridge_facts;
DROP TABLE schema_sums;
