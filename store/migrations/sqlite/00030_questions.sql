-- +goose Up
-- machine_questions are the requests about which a person at a relay's machine is asked, as the relay said last.
CREATE TABLE machine_questions (
    request  TEXT PRIMARY KEY,
    relay    TEXT NOT NULL,
    since_at BIGINT NOT NULL,
    until_at BIGINT NOT NULL
) WITHOUT ROWID;
CREATE INDEX machine_questions_relay ON machine_questions (relay);
CREATE INDEX machine_questions_until ON machine_questions (until_at);

-- +goose Down
DROP TABLE machine_questions;
