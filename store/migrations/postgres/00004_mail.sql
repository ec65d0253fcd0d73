-- +goose Up
ALTER TABLE notices ADD COLUMN message TEXT COLLATE "C" NOT NULL DEFAULT '';
-- What is worth a turn stands before what is quiet, so that fifty quiet notices
-- cannot hide it.
DROP INDEX notices_waiting;
CREATE INDEX notices_waiting ON notices (agent, quiet, id) WHERE turn = '' AND held = 0;

CREATE TABLE messages (
    id           TEXT COLLATE "C" PRIMARY KEY,
    kind         TEXT COLLATE "C" NOT NULL,
    conversation TEXT COLLATE "C" NOT NULL,
    sender       TEXT COLLATE "C" NOT NULL,
    sender_name  TEXT COLLATE "C" NOT NULL,
    recipients   TEXT COLLATE "C" NOT NULL,
    body         TEXT COLLATE "C" NOT NULL,
    urgent       INTEGER NOT NULL,
    sync         INTEGER NOT NULL,
    by_bridge    INTEGER NOT NULL,
    reply_to     TEXT COLLATE "C" NOT NULL,
    join_by      BIGINT NOT NULL,
    files        TEXT COLLATE "C" NOT NULL,
    turn         TEXT COLLATE "C" NOT NULL,
    depth        INTEGER NOT NULL,
    created_at   BIGINT NOT NULL,
    edited_at    BIGINT NOT NULL,
    deleted_at   BIGINT NOT NULL
);
CREATE INDEX messages_conversation ON messages (conversation, created_at, id) WHERE conversation <> '';
CREATE INDEX messages_posts ON messages (conversation, sender, created_at) WHERE conversation <> '';

CREATE TABLE letters (
    message    TEXT COLLATE "C" NOT NULL,
    agent      TEXT COLLATE "C" NOT NULL,
    sender     TEXT COLLATE "C" NOT NULL,
    notice     TEXT COLLATE "C" NOT NULL,
    direct     INTEGER NOT NULL,
    awaited    INTEGER NOT NULL,
    answer     TEXT COLLATE "C" NOT NULL,
    offered    TEXT COLLATE "C" NOT NULL,
    read_at    BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (message, agent)
);
CREATE INDEX letters_agent ON letters (agent, created_at, message);
CREATE INDEX letters_pair ON letters (agent, sender, created_at) WHERE direct = 1;
CREATE INDEX letters_awaited ON letters (agent, sender, message) WHERE awaited = 1;

CREATE TABLE conversations (
    id         TEXT COLLATE "C" PRIMARY KEY,
    kind       TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    title      TEXT COLLATE "C" NOT NULL,
    creator    TEXT COLLATE "C" NOT NULL,
    status     TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX conversations_name ON conversations (name) WHERE name <> '';
CREATE INDEX conversations_kind ON conversations (kind, id);

CREATE TABLE members (
    conversation TEXT COLLATE "C" NOT NULL,
    agent        TEXT COLLATE "C" NOT NULL,
    place        BIGINT NOT NULL,
    joined_at    BIGINT NOT NULL,
    PRIMARY KEY (conversation, agent)
);
CREATE INDEX members_place ON members (conversation, place, agent);
CREATE INDEX members_agent ON members (agent, conversation);

CREATE TABLE reactions (
    message    TEXT COLLATE "C" NOT NULL,
    agent      TEXT COLLATE "C" NOT NULL,
    emoji      TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (message, agent, emoji)
);

CREATE TABLE files (
    id          TEXT COLLATE "C" PRIMARY KEY,
    message     TEXT COLLATE "C" NOT NULL,
    sender      TEXT COLLATE "C" NOT NULL,
    recipient   TEXT COLLATE "C" NOT NULL,
    name        TEXT COLLATE "C" NOT NULL,
    path        TEXT COLLATE "C" NOT NULL,
    size        BIGINT NOT NULL,
    sha256      TEXT COLLATE "C" NOT NULL,
    description TEXT COLLATE "C" NOT NULL,
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
