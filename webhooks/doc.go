// Package webhooks receives the Cloud Agents API's webhooks: it verifies,
// records and acknowledges them. It decides nothing: what a delivery says is a
// hint, and the engine asks the API before it believes it. Rule of thumb:
// nothing is parsed or looked up before the signature is right, and nothing is
// acknowledged before it is recorded.
package webhooks
