// Package wire holds the messages of the agent protocol that the backend
// "cursor" and its stand-in exchange. The vendor does not publish this protocol:
// agent.proto is a schema of our own with the part in use, and agent.pb.go is
// made from it by
//
//	go test ./openai/cursor/wire -run TestSchema -update
package wire

// Paths of the calls on the service.
const (
	// Run is a stream in both directions, over HTTP/2.
	Run = "/agent.v1.AgentService/Run"
	// RunSSE streams what the service says, over HTTP/1.1; BidiAppend is the client's half of it.
	RunSSE     = "/agent.v1.AgentService/RunSSE"
	BidiAppend = "/aiserver.v1.BidiService/BidiAppend"
	// Exchange turns an API key into an access token, and Models lists models. Both speak JSON.
	Exchange = "/auth/exchange_user_api_key"
	Models   = "/v1/models"
)

// DetailsType is the type of the details that an error of the service carries.
const DetailsType = "aiserver.v1.ErrorDetails"
