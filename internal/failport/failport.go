// Package failport puts fail points around the ports of package bridge: both sides
// of each commit and of each call that leaves the process. In a release the
// ports come back as they are; see package failpoint. It changes no answer.
// Rule of thumb: a new method of a port gets a point on either side here.
package failport
