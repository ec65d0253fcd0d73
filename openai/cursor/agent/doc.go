// Package agent is an agent for a person's machine. It speaks the Agent Client
// Protocol with the program that started it, and answers through the agent
// protocol of Cursor's clients (package cursor). The service's own tools run here:
// its shell, and its reading, writing, listing and searching of files.
//
// Each of these tools stays inside the folder of its session, and asks first, by
// session/request_permission. So whoever starts the agent decides: the relay does
// it by its rules, its sandbox and its questions, as for every other local agent.
// Tools of MCP servers that a session brings run without a question, because the
// server decides for itself.
//
// A session is kept in a folder of the state directory, and survives the process.
package agent

// Notice says what whoever starts the agent has to know.
const Notice = `This agent speaks a protocol that its vendor has not published.
  - It may stop working any day.
  - It may be against the terms that come with your key. The account is yours.
  - The official way is Cursor's own command line: drawbridge up --agent cursor.
  - The agent sends your key to the host of --url, and gets a token for it.
  - The agent sends to the host of --agent-url: the token, your messages and images, the path of the session's folder, the system, the shell and the time
    zone, the tools of the session's MCP servers with their results, and the files, the output and the pages that tools return.`
