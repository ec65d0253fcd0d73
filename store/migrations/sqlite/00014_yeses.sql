-- +goose Up
-- The last yes of a person for each target in a tree of agents: what was shown, as JSON.
CREATE TABLE yeses (
    root   TEXT NOT NULL,
    target TEXT NOT NULL,
    effect TEXT NOT NULL,
    at     BIGINT NOT NULL,
    PRIMARY KEY (root, target)
);

-- +goose Down
DROP TABLE yeses;
