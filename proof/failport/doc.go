// Package failport puts fail points around the ports of package bridge: both sides
// of each commit and of each call that leaves the process. Only a build with the
// tag failpoint links it; see package failpoint. It changes no answer. Rule of
// thumb: a new method of a port gets a point on either side here.
package failport
