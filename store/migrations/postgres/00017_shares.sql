-- +goose Up
-- share names whose share of the slots the work uses, such as a tree of agents or a relay.
ALTER TABLE work ADD COLUMN share TEXT COLLATE "C" NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE work DROP COLUMN share;
