-- +goose Up

CREATE TABLE agents (
    id          TEXT COLLATE "C" PRIMARY KEY,
    name        TEXT COLLATE "C" NOT NULL UNIQUE,
    role        TEXT COLLATE "C" NOT NULL,
    quarantined INTEGER NOT NULL,
    parent      TEXT COLLATE "C" NOT NULL,
    command     TEXT COLLATE "C" NOT NULL,
    root        TEXT COLLATE "C" NOT NULL,
    depth       INTEGER NOT NULL,
    api         TEXT COLLATE "C" NOT NULL,
    op_key      TEXT COLLATE "C" NOT NULL,
    external    TEXT COLLATE "C" NOT NULL,
    last_run    TEXT COLLATE "C" NOT NULL,
    repo        TEXT COLLATE "C" NOT NULL,
    ref         TEXT COLLATE "C" NOT NULL,
    url         TEXT COLLATE "C" NOT NULL,
    state       TEXT COLLATE "C" NOT NULL,
    chat_user   TEXT COLLATE "C" NOT NULL,
    trouble     TEXT COLLATE "C" NOT NULL,
    turn_seq    BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    join_policy TEXT COLLATE "C" NOT NULL DEFAULT '',
    join_within BIGINT NOT NULL DEFAULT 0,
    tokens      BIGINT NOT NULL DEFAULT 0,
    cost        BIGINT NOT NULL DEFAULT 0,
    unmetered   INTEGER NOT NULL DEFAULT 0,
    -- How far a subagent's task is: '' while it is open, and then waiting, failed or done.
    task        TEXT NOT NULL DEFAULT '',
    -- Names are unique within a tree, so that no agent learns another tree's. The
    -- column plain has the name. The column name stays unique as a whole: for an agent
    -- that has a parent it is the name, a unit separator and the id of its root.
    plain       TEXT NOT NULL DEFAULT '',
    -- runtime names where an agent lives: cursor is the Cloud Agents API, whose version is in the column api.
    runtime     TEXT COLLATE "C" NOT NULL DEFAULT 'cursor',
    -- The bridge says nothing to the agent before the time not_before, because its account is limited. doing and doing_since say what an
    -- agent on a person's machine does.
    not_before  BIGINT NOT NULL DEFAULT 0,
    doing       TEXT COLLATE "C" NOT NULL DEFAULT '',
    doing_since BIGINT NOT NULL DEFAULT 0,
    -- prompt is the begin of what the agent was launched for.
    prompt      TEXT COLLATE "C" NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX agents_external ON agents (external) WHERE external <> '';
CREATE UNIQUE INDEX agents_chat_user ON agents (chat_user) WHERE chat_user <> '';
CREATE INDEX agents_root ON agents (root, id);
CREATE INDEX agents_parent ON agents (parent, id);
CREATE INDEX agents_state ON agents (state, id, parent, root);
CREATE INDEX agents_plain ON agents (plain, id);

CREATE TABLE turns (
    id          TEXT COLLATE "C" PRIMARY KEY,
    agent       TEXT COLLATE "C" NOT NULL,
    seq         BIGINT NOT NULL,
    cause       TEXT COLLATE "C" NOT NULL,
    body        TEXT COLLATE "C" NOT NULL,
    sent        TEXT COLLATE "C" NOT NULL,
    depth       INTEGER NOT NULL,
    streak      INTEGER NOT NULL,
    state       TEXT COLLATE "C" NOT NULL,
    run         TEXT COLLATE "C" NOT NULL,
    reply       TEXT COLLATE "C" NOT NULL,
    status      TEXT COLLATE "C" NOT NULL,
    trouble     TEXT COLLATE "C" NOT NULL,
    attempts    INTEGER NOT NULL,
    doubt_since BIGINT NOT NULL,
    created_at  BIGINT NOT NULL,
    sent_at     BIGINT NOT NULL,
    ended_at    BIGINT NOT NULL,
    retry       INTEGER NOT NULL DEFAULT 0,
    joining     INTEGER NOT NULL DEFAULT 0,
    stopped     INTEGER NOT NULL DEFAULT 0,
    got         INTEGER NOT NULL DEFAULT 0,
    said        TEXT NOT NULL DEFAULT '',
    -- spent is what the turn took, as JSON; '' when it is unknown.
    spent       TEXT NOT NULL DEFAULT '',
    -- earlier keeps what events show of sent texts that a later attempt replaced: a line of JSON each; see store/quotes.go.
    earlier     TEXT NOT NULL DEFAULT '',
    UNIQUE (agent, seq)
);
CREATE INDEX turns_open ON turns (agent, seq) WHERE state NOT IN ('replied', 'failed');
CREATE INDEX turns_state ON turns (state, id);
CREATE INDEX turns_created ON turns (created_at);

CREATE TABLE commands (
    id           TEXT COLLATE "C" PRIMARY KEY,
    turn         TEXT COLLATE "C" NOT NULL,
    agent        TEXT COLLATE "C" NOT NULL,
    ordinal      INTEGER NOT NULL,
    verb         TEXT COLLATE "C" NOT NULL,
    parsed       TEXT COLLATE "C" NOT NULL,
    op_key       TEXT COLLATE "C" NOT NULL UNIQUE,
    state        TEXT COLLATE "C" NOT NULL,
    code         TEXT COLLATE "C" NOT NULL,
    reason       TEXT COLLATE "C" NOT NULL,
    canonical    TEXT COLLATE "C" NOT NULL,
    api          TEXT COLLATE "C" NOT NULL,
    relay        TEXT COLLATE "C" NOT NULL,
    approval_key TEXT COLLATE "C" NOT NULL,
    approved     INTEGER NOT NULL,
    child        TEXT COLLATE "C" NOT NULL,
    outcome      TEXT COLLATE "C" NOT NULL,
    launched_at  BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    due_at       BIGINT NOT NULL DEFAULT 0,
    runtime      TEXT COLLATE "C" NOT NULL DEFAULT '',
    -- ended is the state before reported.
    ended        TEXT COLLATE "C" NOT NULL DEFAULT '',
    UNIQUE (turn, ordinal)
);
CREATE INDEX commands_agent ON commands (agent, id);
CREATE INDEX commands_state ON commands (state, id);
CREATE INDEX commands_open ON commands (agent) WHERE state IN ('held', 'granted', 'sending', 'confirmed', 'uncertain');
CREATE INDEX commands_launched ON commands (launched_at) WHERE child <> '';
CREATE INDEX commands_created ON commands (created_at) WHERE canonical <> '';

CREATE TABLE notices (
    id         TEXT COLLATE "C" PRIMARY KEY,
    agent      TEXT COLLATE "C" NOT NULL,
    cause      TEXT COLLATE "C" NOT NULL,
    body       TEXT COLLATE "C" NOT NULL,
    untrusted  TEXT COLLATE "C" NOT NULL,
    depth      INTEGER NOT NULL,
    streak     INTEGER NOT NULL,
    quiet      INTEGER NOT NULL,
    commands   TEXT COLLATE "C" NOT NULL,
    completion TEXT COLLATE "C" NOT NULL,
    turn       TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    join_turn  TEXT COLLATE "C" NOT NULL DEFAULT '',
    held       INTEGER NOT NULL DEFAULT 0,
    message    TEXT COLLATE "C" NOT NULL DEFAULT '',
    item       TEXT NOT NULL DEFAULT '',
    source     TEXT NOT NULL DEFAULT '',
    author     TEXT NOT NULL DEFAULT '',
    asked      TEXT NOT NULL DEFAULT '',
    -- 1: the untrusted text is the reply of the turn that the completion ended.
    quotes     INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX notices_turn ON notices (turn, id) WHERE turn <> '';
CREATE INDEX notices_held ON notices (join_turn) WHERE held = 1;
CREATE INDEX notices_waiting ON notices (agent, quiet, id) WHERE turn = '' AND held = 0;

CREATE TABLE completions (
    id           TEXT COLLATE "C" PRIMARY KEY,
    op           TEXT COLLATE "C" NOT NULL,
    turn         TEXT COLLATE "C" NOT NULL,
    run          TEXT COLLATE "C" NOT NULL,
    status       TEXT COLLATE "C" NOT NULL,
    source       TEXT COLLATE "C" NOT NULL,
    carried_by   TEXT COLLATE "C" NOT NULL,
    delivered_at BIGINT NOT NULL,
    created_at   BIGINT NOT NULL,
    evidence     TEXT COLLATE "C" NOT NULL DEFAULT '',
    UNIQUE (op, run, status)
);
CREATE INDEX completions_op ON completions (op, id);

CREATE TABLE deliveries (
    id          TEXT COLLATE "C" PRIMARY KEY,
    op          TEXT COLLATE "C" NOT NULL,
    external    TEXT COLLATE "C" NOT NULL,
    event       TEXT COLLATE "C" NOT NULL,
    status      TEXT COLLATE "C" NOT NULL,
    sent_at     TEXT COLLATE "C" NOT NULL,
    webhook_id  TEXT COLLATE "C" NOT NULL,
    headers     TEXT COLLATE "C" NOT NULL,
    body        BYTEA NOT NULL,
    verdict     TEXT COLLATE "C" NOT NULL,
    received_at BIGINT NOT NULL,
    UNIQUE (op, external, event, status, sent_at)
);
CREATE INDEX deliveries_op ON deliveries (op, id);

CREATE TABLE echoes (
    agent      TEXT COLLATE "C" NOT NULL,
    key        TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    digest     BYTEA NOT NULL DEFAULT '',
    source     TEXT COLLATE "C" NOT NULL DEFAULT '',
    author     TEXT COLLATE "C" NOT NULL DEFAULT '',
    place      TEXT COLLATE "C" NOT NULL DEFAULT '',
    turn       TEXT COLLATE "C" NOT NULL DEFAULT '',
    seq        BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (agent, key)
);

CREATE TABLE approvals (
    root     TEXT COLLATE "C" NOT NULL,
    key      TEXT COLLATE "C" NOT NULL,
    until_at BIGINT NOT NULL,
    PRIMARY KEY (root, key)
);

CREATE TABLE lanes (
    lane     TEXT COLLATE "C" PRIMARY KEY,
    next_seq BIGINT NOT NULL
);

-- An identity: the id of finished work never comes again. Otherwise a late
-- holder of the old row could finish the new one with its fence.
CREATE TABLE work (
    id          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane        TEXT COLLATE "C" NOT NULL,
    seq         BIGINT NOT NULL,
    kind        TEXT COLLATE "C" NOT NULL,
    ref         TEXT COLLATE "C" NOT NULL,
    due_at      BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    fence       BIGINT NOT NULL,
    attempts    BIGINT NOT NULL,
    woken       BIGINT NOT NULL,
    head        INTEGER NOT NULL,
    failures    BIGINT NOT NULL DEFAULT 0,
    tries       BIGINT NOT NULL DEFAULT 0,
    lost        BIGINT NOT NULL DEFAULT 0,
    away_since  BIGINT NOT NULL DEFAULT 0,
    -- share names whose share of the slots the work uses, such as a tree of agents or a relay.
    share       TEXT COLLATE "C" NOT NULL DEFAULT '',
    UNIQUE (lane, seq)
);
-- One head a lane; what stands behind it is in neither index, so that neither
-- a claim nor a look at the clock reads it.
CREATE UNIQUE INDEX work_head ON work (lane) WHERE head = 1;
CREATE INDEX work_ready ON work ((CASE WHEN lease_until > due_at THEN lease_until ELSE due_at END), id) WHERE head = 1;

CREATE TABLE events (
    seq     BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      BIGINT NOT NULL,
    kind    TEXT COLLATE "C" NOT NULL,
    agent   TEXT COLLATE "C" NOT NULL,
    name    TEXT COLLATE "C" NOT NULL,
    root    TEXT COLLATE "C" NOT NULL,
    turn    TEXT COLLATE "C" NOT NULL,
    command TEXT COLLATE "C" NOT NULL,
    body    TEXT COLLATE "C" NOT NULL,
    fields  TEXT COLLATE "C" NOT NULL,
    -- The attempt of the turn whose words the event shows, 0 for none; these words are not in fields.
    attempt INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX events_root ON events (root, seq);

CREATE TABLE trees (
    root       TEXT COLLATE "C" PRIMARY KEY,
    launches   BIGINT NOT NULL,
    turns      BIGINT NOT NULL,
    tokens     BIGINT NOT NULL,
    cost       BIGINT NOT NULL,
    unmetered  BIGINT NOT NULL,
    stopped_at BIGINT NOT NULL,
    why        TEXT COLLATE "C" NOT NULL
);

CREATE TABLE relays (
    name         TEXT COLLATE "C" PRIMARY KEY,
    state        TEXT NOT NULL,
    key          TEXT NOT NULL,
    next_key     TEXT NOT NULL,
    pin          TEXT NOT NULL,
    replica      TEXT NOT NULL,
    session      TEXT NOT NULL,
    connected_at BIGINT NOT NULL,
    enrolled_at  BIGINT NOT NULL,
    seen_at      BIGINT NOT NULL,
    epoch        BIGINT NOT NULL DEFAULT 0,
    offered      BIGINT NOT NULL DEFAULT 0,
    process      TEXT NOT NULL DEFAULT '',
    stopped_at   BIGINT NOT NULL DEFAULT 0,
    copy_at      BIGINT NOT NULL DEFAULT 0,
    copy_epoch   BIGINT NOT NULL DEFAULT 0,
    accepted_at  BIGINT NOT NULL DEFAULT 0,
    outdated_at  BIGINT NOT NULL DEFAULT 0
);
-- A replica looks for what it has to cut off, and for what it held before it restarted.
CREATE INDEX relays_replica ON relays (replica, state, name) WHERE replica <> '';
CREATE INDEX relays_state ON relays (state, name);

CREATE TABLE relay_offers (
    relay      TEXT COLLATE "C" NOT NULL,
    action     TEXT COLLATE "C" NOT NULL,
    approval   TEXT NOT NULL,
    bridge     INTEGER NOT NULL,
    definition TEXT NOT NULL,
    shows      TEXT NOT NULL DEFAULT '',
    approve_by TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (relay, action)
);
CREATE INDEX relay_offers_action ON relay_offers (action, relay);

CREATE TABLE relay_joins (
    id         TEXT PRIMARY KEY,
    relay      TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    key        TEXT NOT NULL
);
CREATE INDEX relay_joins_expires ON relay_joins (expires_at);

CREATE TABLE relay_keys (
    generation BIGINT PRIMARY KEY,
    source     TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE replicas (
    id      TEXT PRIMARY KEY,
    seen_at BIGINT NOT NULL
);
CREATE INDEX replicas_seen ON replicas (seen_at);

CREATE TABLE relay_calls (
    id         TEXT PRIMARY KEY,
    replica    TEXT NOT NULL,
    relay      TEXT NOT NULL,
    request    TEXT NOT NULL,
    ask        TEXT NOT NULL,
    state      TEXT NOT NULL,
    outcome    TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX relay_calls_waiting ON relay_calls (replica, id) WHERE state = 'waiting';
CREATE INDEX relay_calls_created ON relay_calls (created_at);

CREATE TABLE relay_ties (
    request    TEXT PRIMARY KEY,
    relay      TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    process    TEXT NOT NULL DEFAULT '',
    sent_at    BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX relay_ties_created ON relay_ties (created_at);

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
CREATE INDEX letters_awaits ON letters (sender, message, agent) WHERE awaited = 1;

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
CREATE INDEX conversations_creator ON conversations (creator) WHERE kind = 'thread' AND status = 'active';

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
CREATE INDEX files_sender ON files (sender, size);

CREATE TABLE blocks (
    agent      TEXT COLLATE "C" NOT NULL,
    label      TEXT COLLATE "C" NOT NULL,
    version    INTEGER NOT NULL,
    content    TEXT COLLATE "C" NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (agent, label)
);

CREATE TABLE block_versions (
    agent      TEXT COLLATE "C" NOT NULL,
    label      TEXT COLLATE "C" NOT NULL,
    version    INTEGER NOT NULL,
    content    TEXT COLLATE "C" NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (agent, label, version)
);

-- n names a row to the index.
CREATE TABLE passages (
    n          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         TEXT COLLATE "C" NOT NULL UNIQUE,
    agent      TEXT COLLATE "C" NOT NULL,
    seq        BIGINT NOT NULL,
    content    TEXT COLLATE "C" NOT NULL,
    tags       TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (agent, seq)
);

-- What is indexed are words that package search made; no text search
-- configuration of the server has a say in them. The texts are in passages alone.
CREATE TABLE passage_index (
    n     BIGINT PRIMARY KEY,
    terms TSVECTOR NOT NULL
);
CREATE INDEX passage_index_terms ON passage_index USING gin (terms);

CREATE TABLE door_tokens (
    id         TEXT COLLATE "C" PRIMARY KEY,
    agent      TEXT COLLATE "C" NOT NULL,
    hash       TEXT COLLATE "C" NOT NULL UNIQUE,
    generation INTEGER NOT NULL,
    created_at BIGINT NOT NULL,
    last_used  BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL,
    -- client names the program that a token was made for; '' for none in particular.
    client     TEXT NOT NULL DEFAULT ''
);
CREATE INDEX door_tokens_agent ON door_tokens (agent, id);

CREATE TABLE run_messages (
    turn    TEXT COLLATE "C" NOT NULL,
    seq     BIGINT NOT NULL,
    kind    TEXT COLLATE "C" NOT NULL,
    name    TEXT COLLATE "C" NOT NULL,
    call_id TEXT COLLATE "C" NOT NULL,
    payload TEXT COLLATE "C" NOT NULL,
    at      BIGINT NOT NULL,
    PRIMARY KEY (turn, seq),
    UNIQUE (turn, call_id, kind)
);

CREATE TABLE watches (
    agent      TEXT COLLATE "C" NOT NULL,
    watched    TEXT COLLATE "C" NOT NULL,
    after_seq  BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (agent, watched)
);

CREATE TABLE done_once (
    agent      TEXT COLLATE "C" NOT NULL,
    word       TEXT COLLATE "C" NOT NULL,
    digest     TEXT NOT NULL,
    result     TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (agent, word)
);

-- The last yes of a person for each target in a tree of agents: what was shown, as JSON.
CREATE TABLE yeses (
    root   TEXT COLLATE "C" NOT NULL,
    target TEXT COLLATE "C" NOT NULL,
    effect TEXT NOT NULL,
    at     BIGINT NOT NULL,
    PRIMARY KEY (root, target)
);

-- What runs told that were found after the database was put back.
CREATE TABLE told (
    agent TEXT NOT NULL,
    item  TEXT NOT NULL,
    turn  TEXT NOT NULL,
    PRIMARY KEY (agent, item)
);

-- The operator's word on runs that nobody can read; one row at most.
CREATE TABLE restored (
    id   INTEGER PRIMARY KEY,
    told INTEGER NOT NULL,
    at   BIGINT NOT NULL
);

-- bridge_facts holds what a bridge must find again about itself, by name.
CREATE TABLE bridge_facts (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- The bytes of each agent's memory, so that a write reads one row and not all of it.
CREATE TABLE memory_bytes (
    agent TEXT PRIMARY KEY,
    bytes BIGINT NOT NULL
);

-- machine_questions are the requests about which a person at a relay's machine is asked, as the relay said last.
CREATE TABLE machine_questions (
    request  TEXT COLLATE "C" PRIMARY KEY,
    relay    TEXT COLLATE "C" NOT NULL,
    since_at BIGINT NOT NULL,
    until_at BIGINT NOT NULL
);
CREATE INDEX machine_questions_relay ON machine_questions (relay);
CREATE INDEX machine_questions_until ON machine_questions (until_at);

-- The operator's page: one-time links and sessions. hash is made from the secret, which is kept nowhere.
CREATE TABLE page_passes (
    hash    TEXT COLLATE "C" PRIMARY KEY,
    made_at BIGINT NOT NULL,
    ends_at BIGINT NOT NULL
);

-- The OpenAI-compatible door: who may come in, conversations, the turns of each, the calls of the callers' tools, and what a backend keeps.
CREATE TABLE openai_tokens (
    id         TEXT COLLATE "C" PRIMARY KEY,
    name       TEXT COLLATE "C" NOT NULL,
    hash       TEXT COLLATE "C" NOT NULL,
    models     TEXT NOT NULL,
    budget     BIGINT NOT NULL,
    per_minute BIGINT NOT NULL,
    commands   TEXT NOT NULL,
    speaks_for TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_used  BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX openai_tokens_hash ON openai_tokens (hash);
CREATE UNIQUE INDEX openai_tokens_name ON openai_tokens (name) WHERE revoked_at = 0;

CREATE TABLE openai_sessions (
    id         TEXT COLLATE "C" PRIMARY KEY,
    token      TEXT COLLATE "C" NOT NULL,
    client_key TEXT COLLATE "C" NOT NULL,
    model      TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL
);
CREATE INDEX openai_sessions_key ON openai_sessions (token, client_key, used_at) WHERE client_key <> '';
CREATE INDEX openai_sessions_used ON openai_sessions (used_at);

CREATE TABLE openai_turns (
    id         TEXT COLLATE "C" PRIMARY KEY,
    session    TEXT COLLATE "C" NOT NULL,
    token      TEXT COLLATE "C" NOT NULL,
    model      TEXT NOT NULL,
    state      TEXT NOT NULL,
    client_key TEXT COLLATE "C" NOT NULL,
    body       TEXT COLLATE "C" NOT NULL,
    before_sum TEXT COLLATE "C" NOT NULL,
    after_sum  TEXT COLLATE "C" NOT NULL,
    ref        TEXT NOT NULL,
    holder     TEXT COLLATE "C" NOT NULL,
    held_until BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    broken_at  BIGINT NOT NULL,
    ended_at   BIGINT NOT NULL,
    had_at     BIGINT NOT NULL,
    answer     BYTEA,
    tokens     BIGINT NOT NULL,
    version    BIGINT NOT NULL
);
CREATE UNIQUE INDEX openai_turns_key ON openai_turns (token, client_key) WHERE client_key <> '';
CREATE INDEX openai_turns_body ON openai_turns (token, body, started_at) WHERE had_at = 0 AND client_key = '';
CREATE INDEX openai_turns_after ON openai_turns (token, after_sum, started_at) WHERE after_sum <> '';
CREATE INDEX openai_turns_started ON openai_turns (token, started_at);
CREATE INDEX openai_turns_open ON openai_turns (held_until) WHERE ended_at = 0;
CREATE INDEX openai_turns_session ON openai_turns (session, started_at);
CREATE INDEX openai_turns_ended ON openai_turns (ended_at) WHERE ended_at > 0;

CREATE TABLE openai_calls (
    id        TEXT COLLATE "C" PRIMARY KEY,
    turn      TEXT COLLATE "C" NOT NULL,
    upstream  TEXT NOT NULL,
    name      TEXT NOT NULL,
    arguments BYTEA,
    state     TEXT NOT NULL,
    result    BYTEA,
    seq       BIGINT NOT NULL
);
CREATE INDEX openai_calls_turn ON openai_calls (turn, seq);

CREATE TABLE openai_state (
    session TEXT COLLATE "C" NOT NULL,
    name    TEXT COLLATE "C" NOT NULL,
    value   BYTEA NOT NULL,
    put_at  BIGINT NOT NULL,
    PRIMARY KEY (session, name)
);
CREATE INDEX openai_state_put ON openai_state (put_at);
