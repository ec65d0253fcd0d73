-- +goose Up
-- not_before is the time before which nothing is said to an agent, because its account is limited. doing and doing_since say what an
-- agent on a person's machine does, as its relay tells.
ALTER TABLE agents ADD COLUMN not_before BIGINT NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN doing TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN doing_since BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE agents DROP COLUMN doing_since;
ALTER TABLE agents DROP COLUMN doing;
ALTER TABLE agents DROP COLUMN not_before;
