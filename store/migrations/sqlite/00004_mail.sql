-- +goose Up
ALTER TABLE notices ADD COLUMN message TEXT NOT NULL DEFAULT '';
-- What is worth a turn stands before what is quiet, so that fifty quiet notices
-- cannot hide it.
DROP INDEX notices_waiting;
CREATE INDEX notices_waiting ON notices (agent, quiet, id) WHERE turn = '' AND held = 0;

CREATE TABLE messages (
    id           TEXT PRIMARY KEY,
    kind         TEXT NOT NULL,
    conversation TEXT NOT NULL,
    sender       TEXT NOT NULL,
    sender_name  TEXT NOT NULL,
    recipients   TEXT NOT NULL,
    body         TEXT NOT NULL,
    urgent       INTEGER NOT NULL,
    sync         INTEGER NOT NULL,
    by_bridge    INTEGER NOT NULL,
    reply_to     TEXT NOT NULL,
    join_by      BIGINT NOT NULL,
    files        TEXT NOT NULL,
    turn         TEXT NOT NULL,
    depth        INTEGER NOT NULL,
    created_at   BIGINT NOT NULL,
    edited_at    BIGINT NOT NULL,
    deleted_at   BIGINT NOT NULL
);
CREATE INDEX messages_conversation ON messages (conversation, created_at, id) WHERE conversation <> '';
CREATE INDEX messages_posts ON messages (conversation, sender, created_at) WHERE conversation <> '';

CREATE TABLE letters (
    message    TEXT NOT NULL,
    agent      TEXT NOT NULL,
    sender     TEXT NOT NULL,
    notice     TEXT NOT NULL,
    direct     INTEGER NOT NULL,
    awaited    INTEGER NOT NULL,
    answer     TEXT NOT NULL,
    offered    TEXT NOT NULL,
    read_at    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (message, agent)
) WITHOUT ROWID;
CREATE INDEX letters_agent ON letters (agent, created_at, message);
CREATE INDEX letters_pair ON letters (agent, sender, created_at) WHERE direct = 1;
CREATE INDEX letters_awaited ON letters (agent, sender, message) WHERE awaited = 1;

CREATE TABLE conversations (
    id         TEXT PRIMARY KEY,
    kind       TEXT NOT NULL,
    name       TEXT NOT NULL,
    title      TEXT NOT NULL,
    creator    TEXT NOT NULL,
    status     TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX conversations_name ON conversations (name) WHERE name <> '';
CREATE INDEX conversations_kind ON conversations (kind, id);

CREATE TABLE members (
    conversation TEXT NOT NULL,
    agent        TEXT NOT NULL,
    place        BIGINT NOT NULL,
    joined_at    BIGINT NOT NULL,
    PRIMARY KEY (conversation, agent)
) WITHOUT ROWID;
CREATE INDEX members_place ON members (conversation, place, agent);
CREATE INDEX members_agent ON members (agent, conversation);

CREATE TABLE reactions (
    message    TEXT NOT NULL,
    agent      TEXT NOT NULL,
    emoji      TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (message, agent, emoji)
) WITHOUT ROWID;

CREATE TABLE files (
    id          TEXT PRIMARY KEY,
    message     TEXT NOT NULL,
    sender      TEXT NOT NULL,
    recipient   TEXT NOT NULL,
    name        TEXT NOT NULL,
    path        TEXT NOT NULL,
    size        BIGINT NOT NULL,
    sha256      TEXT NOT NULL,
    description TEXT NOT NULL,
    created_at  BIGINT NOT NULL
);

-- +goose Down
DROP TABLE files;
DROP TABLE reactions;
DROP TABLE members;
DROP TABLE conversations;
DROP TABLE letters;
DROP TABLE messages;
DROP INDEX notices_waiting;
CREATE INDEX notices_waiting ON notices (agent, id) WHERE turn = '' AND held = 0;
ALTER TABLE notices DROP COLUMN message;
