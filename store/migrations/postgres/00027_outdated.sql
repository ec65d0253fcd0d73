-- +goose Up
ALTER TABLE relays ADD COLUMN outdated_at BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE relays DROP COLUMN outdated_at;
