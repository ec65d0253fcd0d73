// Package cursor is the backend of the OpenAI-compatible door that speaks the
// agent protocol of Cursor's own clients (agent.v1). The vendor does not publish
// that protocol. So the backend is off unless the configuration says that its
// owner knows what that means; [Notice] is the text.
//
// A turn is one run on the service. The service asks this client to run tools.
// Tools of the caller go to the caller: the turn is parked, the run stays open,
// and the results go back into it. A tool of the service's own goes to the
// caller's tool of the same meaning, or is refused in the form that the service
// expects. This package runs nothing by itself; a [Local] does, which package agent
// brings.
//
// The service keeps no conversation. It hands over blobs and a state, which stand
// beside the door's session and come back with the next turn.
package cursor

// Notice says what whoever switches the backend on has to know.
const Notice = `The backend kind "cursor" speaks a protocol that its vendor has not published.
  - It may stop working any day.
  - It may be against the terms that come with your key. The account is yours.
  - Official ways to most of the same: kind "cloud" behind this endpoint, or Cursor's command line as an agent of drawbridge up.
  - The bridge sends your key to the host of url, and gets a token for it.
  - It sends to the host of agent_url: that token, the messages with their images, the definitions of the caller's tools, and their results.
  - It sends no file and no path of this machine.`
